//! The built-in CPU device against lavapipe, kernel by kernel.
//!
//! Contenders take turns in one process, all on all cores. `lavapipe-again` is lavapipe on a second device: a control
//! that must read 1.0×. `stencil` and `scan` are also plain Rust on one thread (`rust`). Results are compared before anything is timed. Without lavapipe only the times of the CPU device
//! are shown.
//!
//! `cargo bench -p sortie --bench cpu [-- --quick] [--json] [--only CASE,…]`; what each case does stands next to its
//! kernel. The tensor bench compares the native matrix product with the crates it uses.

#![expect(clippy::print_stderr, reason = "a missing driver is named on stderr")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use sortie::{Buffer, Device, DeviceOptions, Grid, Kernel};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

const MEGA: usize = 1 << 20;
const SIDE: usize = 512;
const CELLS: usize = 64;

const RELU: &str = include_str!("kernels/relu.wgsl");

/// Six elementwise operations in one kernel.
const CHAIN: &str = include_str!("kernels/chain.wgsl");

const NAIVE: &str = include_str!("kernels/naive.wgsl");

const TILED: &str = include_str!("kernels/tiled.wgsl");

const REDUCE: &str = include_str!("kernels/reduce.wgsl");

const COLLATZ: &str = include_str!("kernels/collatz.wgsl");

const GATHER: &str = include_str!("kernels/gather.wgsl");

/// A step of the heat equation on a square, in groups of 16×16: a shape that suits GPUs.
const STENCIL: &str = include_str!("kernels/stencil.wgsl");

/// Prefix sums of blocks of 256, in workgroup memory.
const SCAN: &str = include_str!("kernels/scan.wgsl");

/// A product as code generators write it: everything declared `read_write`, four rows by one `vec4` for each invocation
/// in private arrays, every load and store guarded.
const PRODUCT: &str = include_str!("kernels/guarded_product.wgsl");

/// A stencil over all eight neighbours in loops, each looked up by a function that knows the edges, in groups of 16×16.
const EDGES: &str = include_str!("kernels/edges.wgsl");

/// Forces between points that are near each other: points are sorted by cell, and each looks into nine cells.
const NEIGHBOURS: &str = include_str!("kernels/neighbours.wgsl");

fn stencil_in_rust(inputs: &[Vec<u32>], next: &mut [u32]) {
    let (old, side) = (&inputs[0], 2 * SIDE);
    let row = |y: usize| &old[y * side..][..side];
    for (y, next) in next.chunks_exact_mut(side).enumerate() {
        let (here, north, south) = (row(y), row(y.max(1) - 1), row((y + 1).min(side - 1)));
        let step = |west: u32, east: u32, x: usize| {
            let [own, west, east, north, south] = [here[x], west, east, north[x], south[x]].map(f32::from_bits);
            (own + 0.2 * (west + east + (north + south) - 4.0 * own)).to_bits()
        };
        next[0] = step(here[0], here[1], 0);
        for x in 1..side - 1 {
            next[x] = step(here[x - 1], here[x + 1], x);
        }
        next[side - 1] = step(here[side - 2], here[side - 1], side - 1);
    }
}

fn scan_in_rust(inputs: &[Vec<u32>], output: &mut [u32]) {
    for (block, sums) in inputs[0].chunks(256).zip(output.chunks_mut(256)) {
        let mut sum = 0_u32;
        for (x, y) in block.iter().zip(sums) {
            sum = sum.wrapping_add(*x);
            *y = sum;
        }
    }
}

/// Plain Rust: reads the inputs, writes the output.
type InRust = fn(&[Vec<u32>], &mut [u32]);

/// A kernel with its inputs.
struct Work {
    name: &'static str,
    n: usize,
    source: &'static str,
    inputs: Vec<Vec<u32>>,
    output: usize,
    grid: Grid<'static>,
    /// Dispatches in a batch.
    repeat: usize,
    /// The allowed difference of results, relative to 1; 0 for integers.
    tolerance: f32,
    /// The same on one thread without a device; then the baseline.
    rust: Option<InRust>,
}

fn floats(len: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * 7919 % 1999) as f32 / 1000.0 - 1.0).to_bits()).collect()
}

/// Points in `CELLS`² cells, sorted by cell, with the number of the first point of each cell.
fn points(count: usize) -> [Vec<u32>; 2] {
    let random = |i: usize, factor: u64| ((i as u64 + 1).wrapping_mul(factor) >> 40) as f32 / (1 << 24) as f32;
    let place = |i: usize, factor: u64| random(i, factor) * CELLS as f32;
    let point =
        |i| [place(i, 0x9e37_79b9_7f4a_7c15), place(i, 0xc2b2_ae3d_27d4_eb4f), random(i, 0x1656_67b1_9e37_79f9), 0.0];
    let cell = |[x, y, ..]: &[f32; 4]| (*y as usize).min(CELLS - 1) * CELLS + (*x as usize).min(CELLS - 1);
    let mut all: Vec<[f32; 4]> = (0..count).map(point).collect();
    all.sort_by_key(cell);
    let starts = (0..=CELLS * CELLS).map(|number| all.partition_point(|point| cell(point) < number) as u32);
    [starts.collect(), all.iter().flatten().map(|value| value.to_bits()).collect()]
}

fn cases() -> Vec<Work> {
    let size = [SIDE as u32, SIDE as u32, SIDE as u32, 0].to_vec();
    let matrices = || vec![size.clone(), floats(SIDE * SIDE), floats(SIDE * SIDE + 1)[1..].to_vec()];
    let case = |name, n, source, inputs, output, grid| Work {
        name,
        n,
        source,
        inputs,
        output,
        grid,
        repeat: 1,
        tolerance: 1e-5,
        rust: None,
    };
    let square = || Grid::groups([(SIDE / 16) as u32, (SIDE / 16) as u32, 1]);
    let random = (0..MEGA as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 12).collect();
    let field = || vec![vec![2 * SIDE as u32, 2 * SIDE as u32, 0.1_f32.to_bits(), 0], floats(MEGA)];
    let count = 4 * CELLS * CELLS;
    let [starts, points] = points(count);
    let reach = vec![CELLS as u32, count as u32, 0.8_f32.to_bits(), 0];
    vec![
        case("chain", MEGA, CHAIN, vec![floats(MEGA)], MEGA, Grid::items(MEGA)),
        case("relu", MEGA, RELU, vec![floats(MEGA)], MEGA, Grid::items(MEGA)),
        Work { repeat: 1000, ..case("small", 1024, RELU, vec![floats(1024)], 1024, Grid::items(1024)) },
        Work { tolerance: 1e-3, ..case("naive", SIDE, NAIVE, matrices(), SIDE * SIDE, square()) },
        Work { tolerance: 1e-3, ..case("tiled", SIDE, TILED, matrices(), SIDE * SIDE, square()) },
        Work { tolerance: 1e-3, ..case("reduce", MEGA, REDUCE, vec![floats(MEGA)], MEGA / 256, Grid::items(MEGA)) },
        Work {
            tolerance: 0.0,
            ..case("divergent", 1 << 18, COLLATZ, vec![(1..=1 << 18).collect()], 1 << 18, Grid::items(1 << 18))
        },
        case("gather", MEGA, GATHER, vec![random, floats(MEGA)], MEGA, Grid::items(MEGA)),
        Work {
            rust: Some(stencil_in_rust),
            ..case("stencil", 2 * SIDE, STENCIL, vec![floats(MEGA)], MEGA, Grid::items([2 * SIDE, 2 * SIDE]))
        },
        Work {
            tolerance: 0.0,
            rust: Some(scan_in_rust),
            ..case("scan", MEGA, SCAN, vec![floats(MEGA)], MEGA, Grid::items(MEGA))
        },
        Work {
            tolerance: 1e-3,
            ..case("product", SIDE, PRODUCT, matrices(), SIDE * SIDE, Grid::items([SIDE / 4, SIDE / 4]))
        },
        case("edges", 2 * SIDE, EDGES, field(), MEGA, Grid::items([2 * SIDE, 2 * SIDE])),
        Work {
            tolerance: 1e-3,
            ..case("neighbours", count, NEIGHBOURS, vec![reach, starts, points], 4 * count, Grid::items(count))
        },
    ]
}

/// A kernel with its buffers on one device.
struct OnDevice<'a> {
    device: &'a Device,
    work: &'a Work,
    kernel: Kernel,
    inputs: Vec<Buffer<u32>>,
    output: Buffer<u32>,
}

impl<'a> OnDevice<'a> {
    fn new(device: &'a Device, work: &'a Work) -> sortie::Result<Self> {
        let inputs = work.inputs.iter().map(|data| device.upload(data)).collect::<sortie::Result<_>>()?;
        let output = device.zeros(work.output)?;
        Ok(Self { device, work, kernel: device.kernel(work.source)?, inputs, output })
    }

    /// Time per dispatch, from recording to completion.
    fn run(&self) -> sortie::Result<Duration> {
        let start = Instant::now();
        let batch = self.device.batch();
        // The data of every kernel is kept as words.
        let words: Vec<_> = self.inputs.iter().chain([&self.output]).map(Buffer::untyped).collect();
        let bindings: Vec<&dyn sortie::Bind> = words.iter().map(|memory| memory as &dyn sortie::Bind).collect();
        for _ in 0..self.work.repeat {
            batch.dispatch(&self.kernel, &bindings, self.work.grid);
        }
        batch.submit()?;
        Ok(start.elapsed() / u32::try_from(self.work.repeat).unwrap_or(1))
    }
}

fn open(name: &str) -> Option<Device> {
    Device::open_with(DeviceOptions::default().with_device(name)).ok()
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    let mut devices = vec![("cpu", Device::cpu()?)];
    for name in ["lavapipe", "lavapipe-again"] {
        devices.extend(open("llvmpipe").map(|device| (name, device)));
    }
    if devices.len() == 1 {
        eprintln!("there is no lavapipe here: only the CPU device is timed");
    }
    let mut report = Report::new("cpu", args.json);
    for work in cases().iter().filter(|work| args.selects(work.name)) {
        compare(work, &devices, args.quick, &mut report)?;
    }
    Ok(())
}

fn compare(work: &Work, devices: &[(&str, Device)], quick: bool, report: &mut Report) -> Outcome<()> {
    let mut contenders = Vec::new();
    for (name, device) in devices {
        contenders.push((*name, OnDevice::new(device, work)?));
    }
    let mut slowest = Duration::ZERO;
    for (_, contender) in &contenders {
        slowest = slowest.max(contender.run()?);
    }
    let expected = contenders[0].1.output.download()?;
    for (name, contender) in &contenders[1..] {
        check(work, &expected, name, &contender.output.download()?)?;
    }
    let mut in_rust = vec![0; work.output];
    if let Some(rust) = work.rust {
        rust(&work.inputs, &mut in_rust);
        check(work, &expected, "rust", &in_rust)?;
    }
    // With `--quick`, the control is left out where a round takes seconds.
    if quick && slowest > Duration::from_millis(300) {
        contenders.truncate(2);
    }
    let (min, budget) = if quick { (3, Duration::from_millis(900)) } else { (5, Duration::from_secs(8)) };
    let rounds = Rounds { min, max: 400, budget };
    let mut names: Vec<_> = contenders.iter().map(|(name, _)| *name).collect();
    let baseline = if work.rust.is_some() { names.len() } else { usize::from(names.len() > 1) };
    names.extend(work.rust.map(|_| "rust"));
    let samples = rounds.run(names.len(), |at, _| {
        let time = match (contenders.get(at), work.rust) {
            (Some((_, contender)), _) => contender.run()?,
            (None, Some(rust)) => {
                let start = Instant::now();
                rust(black_box(&work.inputs), black_box(&mut in_rust));
                start.elapsed()
            }
            (None, None) => unreachable!("the last contender is plain Rust"),
        };
        Ok([time.as_secs_f64() * 1e6])
    })?;
    let names: Vec<_> = names.into_iter().map(|name| Contender::new(name, baseline)).collect();
    let device = devices.iter().take(2).map(|(_, device)| device.info().name.as_str()).collect::<Vec<_>>().join(", ");
    let case = Case { device: &device, case: work.name, n: work.n, metrics: ["us_per_op"] };
    report.rows(&case, &names, &samples);
    Ok(())
}

/// Whether a result is that of the CPU device.
fn check(work: &Work, expected: &[u32], name: &str, found: &[u32]) -> Outcome<()> {
    let near = |a: &u32, b: &u32| match work.tolerance {
        0.0 => a == b,
        tolerance => (f32::from_bits(*a) - f32::from_bits(*b)).abs() <= tolerance * f32::from_bits(*b).abs().max(1.0),
    };
    if let Some(at) = expected.iter().zip(found).position(|(a, b)| !near(a, b)) {
        let [one, other] = [expected[at], found[at]];
        return Err(format!("{}: cpu and {name} differ at {at}: {one:#x} and {other:#x}", work.name).into());
    }
    Ok(())
}
