//! The built-in CPU device against lavapipe, kernel by kernel, and its native operations against the crates they use.
//!
//! Contenders take turns in one process, all on all cores; a value is a median, a ratio the median ratio to the baseline within a round, because
//! load that comes and goes slows a whole round. `lavapipe-again` is lavapipe on a second device: a control that must read 1.0×. Answers are
//! compared before anything is timed. Without lavapipe only the times of the CPU device are shown.
//!
//! `cargo bench -p sortie --bench cpu [-- --quick] [--json]`; what each case does stands next to its kernel.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![expect(unsafe_code, reason = "the crates for products of matrices are called directly, for comparison")]

use std::time::{Duration, Instant};

use sortie::{Buffer, Device, DeviceOptions, Grid, Kernel};
use sortie_cpu::{
    Threads,
    native::{self, Matmul},
};

const MEGA: usize = 1 << 20;
const SIDE: usize = 512;

const RELU: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&x) { return; }
        y[id.x] = max(x[id.x], 0.0);
    }";

/// Six elementwise operations in one kernel.
const CHAIN: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&x) { return; }
        var v = x[id.x] * 2.0;
        v = v + 1.0;
        v = max(v, 0.0);
        v = tanh(v);
        v = exp(-v);
        y[id.x] = v * 0.5;
    }";

const NAIVE: &str = "
    struct Size { m: u32, k: u32, n: u32 }
    @group(0) @binding(0) var<uniform> size: Size;
    @group(0) @binding(1) var<storage, read> a: array<f32>;
    @group(0) @binding(2) var<storage, read> b: array<f32>;
    @group(0) @binding(3) var<storage, read_write> c: array<f32>;
    @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= size.n || id.y >= size.m { return; }
        var sum = 0.0;
        for (var i = 0u; i < size.k; i++) { sum += a[id.y * size.k + i] * b[i * size.n + id.x]; }
        c[id.y * size.n + id.x] = sum;
    }";

const TILED: &str = "
    struct Size { m: u32, k: u32, n: u32 }
    @group(0) @binding(0) var<uniform> size: Size;
    @group(0) @binding(1) var<storage, read> a: array<f32>;
    @group(0) @binding(2) var<storage, read> b: array<f32>;
    @group(0) @binding(3) var<storage, read_write> c: array<f32>;
    var<workgroup> left: array<array<f32, 16>, 16>;
    var<workgroup> right: array<array<f32, 16>, 16>;
    @compute @workgroup_size(16, 16)
    fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) at: vec3<u32>) {
        var sum = 0.0;
        for (var t = 0u; t < size.k; t += 16u) {
            left[at.y][at.x] = a[id.y * size.k + t + at.x];
            right[at.y][at.x] = b[(t + at.y) * size.n + id.x];
            workgroupBarrier();
            for (var i = 0u; i < 16u; i++) { sum += left[at.y][i] * right[i][at.x]; }
            workgroupBarrier();
        }
        c[id.y * size.n + id.x] = sum;
    }";

const REDUCE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    var<workgroup> part: array<f32, 256>;
    @compute @workgroup_size(256)
    fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) at: vec3<u32>,
            @builtin(workgroup_id) group: vec3<u32>) {
        part[at.x] = x[id.x];
        workgroupBarrier();
        for (var half = 128u; half > 0u; half >>= 1u) {
            if at.x < half { part[at.x] += part[at.x + half]; }
            workgroupBarrier();
        }
        if at.x == 0u { y[group.x] = part[0]; }
    }";

const COLLATZ: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&x) { return; }
        var n = x[id.x];
        var steps = 0u;
        while n > 1u {
            if n % 2u == 0u { n = n / 2u; } else { n = 3u * n + 1u; }
            steps++;
        }
        y[id.x] = steps;
    }";

const GATHER: &str = "
    @group(0) @binding(0) var<storage, read> index: array<u32>;
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&index) { return; }
        y[id.x] = x[index[id.x]];
    }";

/// A kernel with what it reads.
struct Case {
    name: &'static str,
    n: usize,
    source: &'static str,
    inputs: Vec<Vec<u32>>,
    output: usize,
    grid: Grid<'static>,
    /// Dispatches in a batch.
    repeat: usize,
    /// How far apart answers may be, relative to 1; 0 for integers.
    tolerance: f32,
}

fn floats(len: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * 7919 % 1999) as f32 / 1000.0 - 1.0).to_bits()).collect()
}

fn cases() -> Vec<Case> {
    let size = [SIDE as u32, SIDE as u32, SIDE as u32, 0].to_vec();
    let matrices = || vec![size.clone(), floats(SIDE * SIDE), floats(SIDE * SIDE + 1)[1..].to_vec()];
    let case = |name, n, source, inputs, output, grid| Case {
        name,
        n,
        source,
        inputs,
        output,
        grid,
        repeat: 1,
        tolerance: 1e-5,
    };
    let square = || Grid::groups([(SIDE / 16) as u32, (SIDE / 16) as u32, 1]);
    let random = (0..MEGA as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 12).collect();
    vec![
        case("chain", MEGA, CHAIN, vec![floats(MEGA)], MEGA, Grid::items(MEGA)),
        case("relu", MEGA, RELU, vec![floats(MEGA)], MEGA, Grid::items(MEGA)),
        Case { repeat: 1000, ..case("small", 1024, RELU, vec![floats(1024)], 1024, Grid::items(1024)) },
        Case { tolerance: 1e-3, ..case("naive", SIDE, NAIVE, matrices(), SIDE * SIDE, square()) },
        Case { tolerance: 1e-3, ..case("tiled", SIDE, TILED, matrices(), SIDE * SIDE, square()) },
        Case { tolerance: 1e-3, ..case("reduce", MEGA, REDUCE, vec![floats(MEGA)], MEGA / 256, Grid::items(MEGA)) },
        Case {
            tolerance: 0.0,
            ..case("divergent", 1 << 18, COLLATZ, vec![(1..=1 << 18).collect()], 1 << 18, Grid::items(1 << 18))
        },
        case("gather", MEGA, GATHER, vec![random, floats(MEGA)], MEGA, Grid::items(MEGA)),
    ]
}

/// A case made ready on one device.
struct Ready<'a> {
    device: &'a Device,
    case: &'a Case,
    kernel: Kernel,
    inputs: Vec<Buffer<u32>>,
    output: Buffer<u32>,
}

impl<'a> Ready<'a> {
    fn new(device: &'a Device, case: &'a Case) -> sortie::Result<Self> {
        let inputs = case.inputs.iter().map(|data| device.upload(data)).collect::<sortie::Result<_>>()?;
        let output = device.zeros(case.output)?;
        Ok(Self { device, case, kernel: device.kernel(case.source)?, inputs, output })
    }

    /// Time per dispatch, from recording to completion.
    fn run(&self) -> sortie::Result<Duration> {
        let start = Instant::now();
        let mut batch = self.device.batch();
        let mut bindings: Vec<&dyn sortie::Bind> = self.inputs.iter().map(|input| input as &dyn sortie::Bind).collect();
        bindings.push(&self.output);
        for _ in 0..self.case.repeat {
            batch.dispatch(&self.kernel, &bindings, self.case.grid);
        }
        batch.submit()?;
        Ok(start.elapsed() / u32::try_from(self.case.repeat).unwrap_or(1))
    }
}

struct Table {
    json: bool,
}

impl Table {
    #[expect(clippy::too_many_arguments, reason = "one row")]
    fn row(&self, device: &str, case: &str, n: usize, contender: &str, value: f64, baseline: &str, ratio: Option<f64>) {
        if self.json {
            let ratio = ratio.map_or_else(|| "null".to_owned(), |ratio| format!("{ratio:.4}"));
            println!(
                "{{\"bench\":\"cpu\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{contender}\",\
                 \"metric\":\"us_per_op\",\"value\":{value:.4},\"baseline\":\"{baseline}\",\"ratio\":{ratio}}}"
            );
        } else {
            let ratio = ratio.map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.3}×"));
            println!("{case:<14} {n:>8} {contender:<16} {value:>12.3} µs {ratio:>9} of {baseline}");
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn open(name: &str) -> Option<Device> {
    Device::open_with(DeviceOptions { device: Some(name.into()), ..DeviceOptions::default() }).ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let only = arguments.iter().skip(1).find(|argument| !argument.starts_with("--"));
    let budget = if has("--quick") { Duration::from_millis(900) } else { Duration::from_secs(8) };
    let table = Table { json: has("--json") };
    let cpu = Device::cpu()?;
    let drivers = [open("llvmpipe"), open("llvmpipe")];
    if drivers[0].is_none() {
        eprintln!("there is no lavapipe here: only the CPU device is timed");
    }
    if !table.json {
        println!(
            "{} against {}",
            cpu.info(),
            drivers[0].as_ref().map_or("nothing".into(), |device| device.info().to_string())
        );
    }
    for case in cases().iter().filter(|case| only.is_none_or(|only| case.name.contains(only.as_str()))) {
        kernels(case, &cpu, &drivers, budget, &table)?;
    }
    if only.is_none_or(|only| only.starts_with("native")) {
        native_matmul(budget, &table)?;
    }
    Ok(())
}

fn kernels(
    case: &Case,
    cpu: &Device,
    drivers: &[Option<Device>],
    budget: Duration,
    table: &Table,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut contenders = vec![("cpu", Ready::new(cpu, case)?)];
    for (name, device) in ["lavapipe", "lavapipe-again"].into_iter().zip(drivers) {
        if let Some(device) = device {
            contenders.push((name, Ready::new(device, case)?));
        }
    }
    let mut slowest = Duration::ZERO;
    for (_, ready) in &contenders {
        slowest = slowest.max(ready.run()?);
    }
    let answer = contenders[0].1.output.download()?;
    for (name, ready) in &contenders[1..] {
        let other = ready.output.download()?;
        let near = |a: &u32, b: &u32| match case.tolerance {
            0.0 => a == b,
            tolerance => {
                (f32::from_bits(*a) - f32::from_bits(*b)).abs() <= tolerance * f32::from_bits(*b).abs().max(1.0)
            }
        };
        if let Some(at) = answer.iter().zip(&other).position(|(a, b)| !near(a, b)) {
            return Err(format!(
                "{}: cpu and {name} differ at {at}: {:#x} and {:#x}",
                case.name, answer[at], other[at]
            )
            .into());
        }
    }
    // In a hurry, the control is left out where a round takes seconds.
    let hurry = budget < Duration::from_secs(1);
    if hurry && slowest > Duration::from_millis(300) {
        contenders.truncate(2);
    }
    let rounds = if hurry { 3 } else { 5 };
    let mut times = vec![Vec::new(); contenders.len()];
    let start = Instant::now();
    while times[0].len() < rounds || (start.elapsed() < budget && times[0].len() < 400) {
        for ((_, ready), times) in contenders.iter().zip(&mut times) {
            times.push(ready.run()?.as_secs_f64() * 1e6);
        }
    }
    let baseline = times.get(1).cloned();
    for ((name, ready), times) in contenders.iter().zip(times) {
        let ratio = baseline.as_ref().map(|baseline| median(times.iter().zip(baseline).map(|(a, b)| a / b).collect()));
        table.row(&ready.device.info().name, case.name, case.n, name, median(times), "lavapipe", ratio);
    }
    Ok(())
}

fn native_matmul(budget: Duration, table: &Table) -> Result<(), Box<dyn std::error::Error>> {
    let threads = Threads::new(None)?;
    let count = threads.count();
    let n = SIDE;
    let a: Vec<f32> = floats(n * n).into_iter().map(f32::from_bits).collect();
    let b: Vec<f32> = a.iter().rev().copied().collect();
    let mut c = vec![0.0_f32; n * n];
    let (size, stride) = (n, n.cast_signed());
    let mut run = |contender: usize| -> Result<f64, Box<dyn std::error::Error>> {
        let start = Instant::now();
        match contender {
            0 => native::matmul(Matmul::new(n, n, n), &a, &b, &mut c, &threads)?,
            // SAFETY: the pointers are to n × n elements, row after row.
            1 => unsafe {
                matrixmultiply::sgemm(
                    size,
                    size,
                    size,
                    1.0,
                    a.as_ptr(),
                    stride,
                    1,
                    b.as_ptr(),
                    stride,
                    1,
                    0.0,
                    c.as_mut_ptr(),
                    stride,
                    1,
                );
            },
            // SAFETY: the same.
            _ => unsafe {
                gemm::gemm(
                    size,
                    size,
                    size,
                    c.as_mut_ptr(),
                    1,
                    stride,
                    false,
                    a.as_ptr(),
                    1,
                    stride,
                    b.as_ptr(),
                    1,
                    stride,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm::Parallelism::Rayon(count),
                );
            },
        }
        Ok(start.elapsed().as_secs_f64() * 1e6)
    };
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let start = Instant::now();
    while times[0].len() < 20 || (start.elapsed() < budget && times[0].len() < 500) {
        // Threads of one may still be busy when the next begins: nobody always comes after the same one.
        let first = times[0].len();
        for turn in 0..3 {
            let contender = if first.is_multiple_of(2) { (first + turn) % 3 } else { (first + 3 - turn) % 3 };
            times[contender].push(run(contender)?);
        }
    }
    let fastest = if median(times[1].clone()) <= median(times[2].clone()) { 1 } else { 2 };
    let names = ["cpu", "matrixmultiply", "gemm"];
    let baseline = times[fastest].clone();
    for (name, times) in names.iter().zip(times) {
        let ratio = median(times.iter().zip(&baseline).map(|(a, b)| a / b).collect());
        table.row("cpu", "native-matmul", n, name, median(times), names[fastest], Some(ratio));
    }
    Ok(())
}
