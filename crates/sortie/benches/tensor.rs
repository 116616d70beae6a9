//! Tensor operations: fused against unfused and written by hand, and products of matrices against the textbook kernel.
//!
//! Contenders take turns in one process; a value is a median, a ratio the median ratio to the baseline within a round. Weights are resident; a time is from
//! recording to completion. Answers are compared before anything is timed. On the built-in CPU the crates `gemm` and `matrixmultiply`, called
//! directly, multiply too.
//!
//! `cargo bench -p sortie --bench tensor [-- --quick] [--json]`

#![expect(unsafe_code, reason = "the crates that multiply matrices take pointers")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

use std::time::{Duration, Instant};

use sortie::{Buffer, Device, DeviceOptions, Grid, Kernel, Planning};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
/// Microseconds, and the answer.
type Run = Outcome<(f64, Vec<f32>)>;

const ROWS: usize = 1024;
const COLUMNS: usize = 1024;
const SIDE: usize = 512;

/// The chain as one would write it: y = sigmoid(g) · g + x with g = gelu(x · w + b).
const BY_HAND: &str = "
    @group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
    @group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
    @group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
    @group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
    fn erf(x: vec4<f32>) -> vec4<f32> {
        let c = clamp(x, vec4<f32>(-4.0), vec4<f32>(4.0));
        let s = c * c;
        var p = s * -2.72614225801306e-10 + 2.77068142495902e-08;
        p = p * s + -2.10102402082508e-06;
        p = p * s + -5.69250639462346e-05;
        p = p * s + -7.34990630326855e-04;
        p = p * s + -2.95459980854025e-03;
        p = p * s + -1.60960333262415e-02;
        var q = s * -1.45660718464996e-05 + -2.13374055278905e-04;
        q = q * s + -1.68282697438203e-03;
        q = q * s + -7.37332916720468e-03;
        q = q * s + -1.42647390514189e-02;
        return c * p / q;
    }
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let i = id.x;
        if i >= arrayLength(&x) { return; }
        let a = x[i];
        let v = a * w[i % 256u] + b[i % 256u];
        let g = 0.5 * v * (1.0 + erf(v * 0.7071067811865476));
        y[i] = g * (1.0 / (1.0 + exp(-g))) + a;
    }";

const NAIVE: &str = "
    @group(0) @binding(0) var<storage, read> a: array<f32>;
    @group(0) @binding(1) var<storage, read> b: array<f32>;
    @group(0) @binding(2) var<storage, read_write> c: array<f32>;
    @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var sum = 0.0;
        for (var i = 0u; i < 512u; i++) { sum += a[id.y * 512u + i] * b[i * 512u + id.x]; }
        c[id.y * 512u + id.x] = sum;
    }";

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed) % 1999) as f32 / 1000.0 - 1.0).collect()
}

/// One way to compute something: a run gives its time, and if asked its answer.
struct Contender<'a> {
    device: String,
    name: &'static str,
    run: Box<dyn FnMut(bool) -> Run + 'a>,
}

/// Operands on a device.
struct Chain {
    device: Device,
    x: Buffer<f32>,
    w: Buffer<f32>,
    b: Buffer<f32>,
    y: Buffer<f32>,
    kernel: Option<Kernel>,
}

impl Chain {
    fn new(device: &Device, by_hand: bool) -> Outcome<Self> {
        Ok(Self {
            device: device.clone(),
            x: device.upload(&floats(ROWS * COLUMNS, 1))?,
            w: device.upload(&floats(COLUMNS, 2))?,
            b: device.upload(&floats(COLUMNS, 3))?,
            y: device.zeros(ROWS * COLUMNS)?,
            kernel: if by_hand { Some(device.kernel(BY_HAND)?) } else { None },
        })
    }

    fn run(&self, wanted: bool) -> Run {
        let start = Instant::now();
        let mut batch = self.device.batch();
        if let Some(kernel) = &self.kernel {
            batch.dispatch(kernel, &[&self.x, &self.w, &self.b, &self.y], Grid::items(ROWS * COLUMNS / 4));
        } else {
            let x = batch.tensor(&self.x, [ROWS, COLUMNS]);
            let (w, b) = (batch.tensor(&self.w, [COLUMNS]), batch.tensor(&self.b, [COLUMNS]));
            let v = batch.mul(x, w);
            let v = batch.add(v, b);
            let g = batch.gelu(v);
            let s = batch.sigmoid(g);
            let y = batch.mul(g, s);
            let y = batch.add(y, x);
            batch.store(y, &self.y);
        }
        batch.submit()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { self.y.download()? } else { Vec::new() }))
    }
}

struct Product {
    device: Device,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
    kernel: Option<Kernel>,
}

impl Product {
    fn new(device: &Device, by_hand: bool) -> Outcome<Self> {
        Ok(Self {
            device: device.clone(),
            a: device.upload(&floats(SIDE * SIDE, 1))?,
            b: device.upload(&floats(SIDE * SIDE, 2))?,
            c: device.zeros(SIDE * SIDE)?,
            kernel: if by_hand { Some(device.kernel(NAIVE)?) } else { None },
        })
    }

    fn run(&self, wanted: bool) -> Run {
        let start = Instant::now();
        let mut batch = self.device.batch();
        if let Some(kernel) = &self.kernel {
            let groups = (SIDE / 16) as u32;
            batch.dispatch(kernel, &[&self.a, &self.b, &self.c], Grid::groups([groups, groups, 1]));
        } else {
            let (a, b) = (batch.tensor(&self.a, [SIDE, SIDE]), batch.tensor(&self.b, [SIDE, SIDE]));
            let c = batch.matmul(a, b);
            batch.store(c, &self.c);
        }
        batch.submit()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { self.c.download()? } else { Vec::new() }))
    }
}

/// A crate that multiplies matrices, called directly.
#[derive(Clone, Copy)]
enum Crate {
    Gemm,
    Matrixmultiply,
}

impl Crate {
    fn run(self, a: &[f32], b: &[f32], c: &mut [f32]) -> f64 {
        let (n, stride) = (SIDE, SIDE.cast_signed());
        assert!([a.len(), b.len(), c.len()] == [n * n; 3]);
        let threads = std::thread::available_parallelism().map_or(1, Into::into);
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        let start = Instant::now();
        match self {
            // SAFETY: the pointers are to n × n elements, row after row.
            Self::Gemm => unsafe {
                let by = gemm::Parallelism::Rayon(threads);
                gemm::gemm(n, n, n, c, 1, stride, false, a, 1, stride, b, 1, stride, 0.0, 1.0, false, false, false, by);
            },
            // SAFETY: the same.
            Self::Matrixmultiply => unsafe {
                matrixmultiply::sgemm(n, n, n, 1.0, a, stride, 1, b, stride, 1, 0.0, c, stride, 1);
            },
        }
        start.elapsed().as_secs_f64() * 1e6
    }

    fn contender(self) -> Contender<'static> {
        let (a, b) = (floats(SIDE * SIDE, 1), floats(SIDE * SIDE, 2));
        let mut c = vec![0.0; SIDE * SIDE];
        let name = match self {
            Self::Gemm => "gemm",
            Self::Matrixmultiply => "matrixmultiply",
        };
        let run = move |wanted: bool| {
            let time = self.run(&a, &b, &mut c);
            Ok((time, if wanted { c.clone() } else { Vec::new() }))
        };
        Contender { device: "cpu".into(), name, run: Box::new(run) }
    }
}

fn open(name: &str, fuse: bool) -> Option<Device> {
    let planning = Planning { fuse, ..Planning::default() };
    Device::open_with(DeviceOptions { device: Some(name.into()), planning, ..DeviceOptions::default() }).ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Times all contenders by turns; the first is the baseline.
fn compare(case: &str, n: usize, mut contenders: Vec<Contender<'_>>, budget: Duration, json: bool) -> Outcome<()> {
    let mut answer: Option<Vec<f32>> = None;
    for contender in &mut contenders {
        let (_, found) = (contender.run)(true)?;
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs().max(1.0);
        if let Some(answer) = &answer
            && !found.iter().zip(answer).all(near)
        {
            return Err(format!("{case}: {} on {} has another answer", contender.name, contender.device).into());
        }
        answer.get_or_insert(found);
    }
    let mut times = vec![Vec::new(); contenders.len()];
    let start = Instant::now();
    while times[0].len() < 5 || (start.elapsed() < budget && times[0].len() < 200) {
        // Threads of one may still be busy when the next begins: nobody always comes after the same one.
        let (round, count) = (times[0].len(), contenders.len());
        for turn in 0..count {
            let at = if round.is_multiple_of(2) { (round + turn) % count } else { (round + count - turn) % count };
            times[at].push((contenders[at].run)(false)?.0);
        }
    }
    let baseline = times[0].clone();
    for (contender, times) in contenders.iter().zip(times) {
        let ratio = median(times.iter().zip(&baseline).map(|(a, b)| a / b).collect());
        let (device, name, value) = (&contender.device, contender.name, median(times));
        let first = contenders[0].name;
        if json {
            println!(
                "{{\"bench\":\"tensor\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{name}\",\"metric\":\"us_per_run\",\"value\":{value:.2},\"baseline\":\"{first}\",\"ratio\":{ratio:.4}}}"
            );
        } else {
            println!("{case:<8} {n:>8} {name:<16} {value:>12.1} µs {ratio:>8.3}× of {first}, {device}");
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let (json, budget) = (has("--json"), if has("--quick") { 900 } else { 10_000 });
    let budget = Duration::from_millis(budget);
    let mut chains: Vec<(&str, &str, Chain)> = Vec::new();
    let mut products: Vec<(&str, &str, Product)> = Vec::new();
    for (device, fused, plain) in
        [("llvmpipe", open("llvmpipe", true), open("llvmpipe", false)), ("cpu", open("cpu", true), open("cpu", false))]
    {
        let (Some(fused), Some(plain)) = (fused, plain) else {
            eprintln!("there is no {device} here");
            continue;
        };
        chains.push((device, "sortie-fused", Chain::new(&fused, false)?));
        chains.push((device, "sortie-unfused", Chain::new(&plain, false)?));
        chains.push((device, "hand-fused", Chain::new(&fused, true)?));
        products.push((device, "sortie", Product::new(&fused, false)?));
        products.push((device, "naive", Product::new(&fused, true)?));
    }
    for device in ["llvmpipe", "cpu"] {
        let chain: Vec<_> = chains
            .iter()
            .filter(|(on, ..)| *on == device)
            .map(|(on, name, chain)| Contender {
                device: (*on).into(),
                name,
                run: Box::new(|wanted| chain.run(wanted)),
            })
            .collect();
        let mut product: Vec<_> = products
            .iter()
            .filter(|(on, ..)| *on == device)
            .map(|(on, name, product)| Contender {
                device: (*on).into(),
                name,
                run: Box::new(|wanted| product.run(wanted)),
            })
            .collect();
        if device == "cpu" {
            product.extend([Crate::Gemm, Crate::Matrixmultiply].map(Crate::contender));
        }
        if !chain.is_empty() {
            compare("chain", ROWS * COLUMNS, chain, budget, json)?;
            compare("matmul", SIDE, product, budget, json)?;
        }
    }
    // Across devices: what the built-in CPU is to lavapipe.
    let order = [
        ("cpu", "sortie-fused", "cpu-fused"),
        ("llvmpipe", "sortie-fused", "lavapipe-fused"),
        ("llvmpipe", "sortie-unfused", "lavapipe-unfused"),
    ];
    let across: Vec<_> = order
        .into_iter()
        .filter_map(|(device, name, shown)| {
            let (_, _, chain) = chains.iter().find(|(on, own, _)| *on == device && *own == name)?;
            Some(Contender { device: device.into(), name: shown, run: Box::new(|wanted| chain.run(wanted)) })
        })
        .collect();
    if across.len() == 3 {
        compare("across", ROWS * COLUMNS, across, budget, json)?;
    }
    Ok(())
}
