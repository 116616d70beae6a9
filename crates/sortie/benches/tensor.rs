//! Tensor operations: fused against unfused and against hand-written kernels, matrix products against the textbook
//! kernel, and generated kernels without run-time checks against the same with them.
//!
//! Weights are resident; a time is from recording to completion. Results are compared before anything is timed. On the
//! built-in CPU the crates `gemm` and `matrixmultiply`, called directly, multiply too, and row operations are compared
//! with a copy. `across` compares devices.
//!
//! `cargo bench -p sortie --bench tensor [-- --quick] [--json]`

#![expect(unsafe_code, reason = "the crates that multiply matrices take pointers")]
#![expect(clippy::print_stderr, reason = "a missing device is named on stderr")]

#[path = "tensor/rows.rs"]
mod rows;

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, device::Planning};
use sortie_bench::{Args, Case, Clock, Contender, Cost, Outcome, Report, Rounds};

const ROWS: usize = 1024;
const COLUMNS: usize = 1024;
const SIDE: usize = 512;

/// The chain as one would write it: y = sigmoid(g) · g + x with g = gelu(x · w + b).
const BY_HAND: &str = include_str!("kernels/gelu_chain.wgsl");

const NAIVE: &str = include_str!("kernels/naive_512.wgsl");

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed) % 1999) as f32 / 1000.0 - 1.0).collect()
}

/// One way to compute something.
trait Work {
    /// Runs once: the time in µs.
    fn run(&mut self) -> Outcome<f64>;
    /// The result of the last run.
    fn result(&self) -> Outcome<Vec<f32>>;
}

/// Operands on a device, and what is recorded in each run.
#[derive(Clone)]
struct OnDevice {
    device: Device,
    kernel: Option<Kernel>,
    operands: Vec<Buffer<f32>>,
    output: Buffer<f32>,
    record: fn(&Self, &Batch),
}

impl OnDevice {
    fn new(device: &Device, source: Option<&str>, lens: &[usize], output: usize) -> Outcome<Self> {
        let upload = |(seed, len): (usize, &usize)| device.upload(&floats(*len, seed + 1));
        Ok(Self {
            device: device.clone(),
            kernel: source.map(|source| device.kernel(source)).transpose()?,
            operands: lens.iter().enumerate().map(upload).collect::<sortie::Result<_>>()?,
            output: device.zeros(output)?,
            record: |_, _| {},
        })
    }

    fn chain(device: &Device, source: Option<&str>) -> Outcome<Self> {
        let record = |work: &Self, batch: &Batch| {
            let ([x, w, b], y) = (&work.operands[..], &work.output) else { unreachable!("three operands") };
            if let Some(kernel) = &work.kernel {
                let [x, w, b, y] = [x, w, b, y].map(Buffer::reinterpret::<[f32; 4]>);
                batch.dispatch(kernel, &[&x, &w, &b, &y], Grid::items(ROWS * COLUMNS / 4));
                return;
            }
            let x = batch.tensor(x, [ROWS, COLUMNS]);
            let (w, b) = (batch.tensor(w, [COLUMNS]), batch.tensor(b, [COLUMNS]));
            let g = (x * w + b).gelu();
            (g * g.sigmoid() + x).store(y);
        };
        let lens = [ROWS * COLUMNS, COLUMNS, COLUMNS];
        Ok(Self { record, ..Self::new(device, source, &lens, ROWS * COLUMNS)? })
    }

    fn product(device: &Device, source: Option<&str>) -> Outcome<Self> {
        let record = |work: &Self, batch: &Batch| {
            let ([a, b], c) = (&work.operands[..], &work.output) else { unreachable!("two operands") };
            if let Some(kernel) = &work.kernel {
                let groups = (SIDE / 16) as u32;
                batch.dispatch(kernel, &[a, b, c], Grid::groups([groups, groups, 1]));
                return;
            }
            let (a, b) = (batch.tensor(a, [SIDE, SIDE]), batch.tensor(b, [SIDE, SIDE]));
            a.matmul(b).store(c);
        };
        Ok(Self { record, ..Self::new(device, source, &[SIDE * SIDE; 2], SIDE * SIDE)? })
    }

    /// Softmax of rows, a layer norm, or rows of a table chosen by another operand.
    fn rows(device: &Device, record: fn(&Self, &Batch)) -> Outcome<Self> {
        let work = Self { record, ..Self::new(device, None, &[ROWS * COLUMNS, ROWS], ROWS * COLUMNS)? };
        let chosen: Vec<u32> = (0..ROWS as u32).map(|at| at * 7919 % ROWS as u32).collect();
        work.operands[1].reinterpret::<u32>().write(&chosen)?;
        Ok(work)
    }
}

impl Work for OnDevice {
    fn run(&mut self) -> Outcome<f64> {
        let start = Instant::now();
        let batch = self.device.batch();
        (self.record)(self, &batch);
        batch.submit()?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    fn result(&self) -> Outcome<Vec<f32>> {
        Ok(self.output.download()?)
    }
}

/// A crate that multiplies matrices, called directly.
struct ByCrate {
    multiply: fn(*const f32, *const f32, *mut f32),
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl ByCrate {
    fn new(multiply: fn(*const f32, *const f32, *mut f32)) -> Self {
        let (a, b) = (floats(SIDE * SIDE, 1), floats(SIDE * SIDE, 2));
        Self { multiply, a, b, c: vec![0.0; SIDE * SIDE] }
    }
}

impl Work for ByCrate {
    fn run(&mut self) -> Outcome<f64> {
        let start = Instant::now();
        (self.multiply)(self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    fn result(&self) -> Outcome<Vec<f32>> {
        Ok(self.c.clone())
    }
}

fn by_gemm(a: *const f32, b: *const f32, c: *mut f32) {
    let (n, stride) = (SIDE, SIDE.cast_signed());
    let by = gemm::Parallelism::Rayon(std::thread::available_parallelism().map_or(1, Into::into));
    // SAFETY: `ByCrate` passes pointers to n × n elements, row after row.
    unsafe { gemm::gemm(n, n, n, c, 1, stride, false, a, 1, stride, b, 1, stride, 0.0, 1.0, false, false, false, by) };
}

fn by_matrixmultiply(a: *const f32, b: *const f32, c: *mut f32) {
    let (n, stride) = (SIDE, SIDE.cast_signed());
    // SAFETY: `ByCrate` passes pointers to n × n elements, row after row.
    unsafe { matrixmultiply::sgemm(n, n, n, 1.0, a, stride, 1, b, stride, 1, 0.0, c, stride, 1) };
}

fn open(name: &str, options: DeviceOptions) -> Option<Device> {
    Device::open_with(options.with_device(name)).ok()
}

type Contenders = Vec<(&'static str, Box<dyn Work>)>;

/// Times all contenders by turns; the first is the baseline.
fn compare(
    device: &str,
    case: &str,
    n: usize,
    mut contenders: Contenders,
    budget: Duration,
    report: &mut Report,
) -> Outcome<()> {
    let mut expected: Option<Vec<f32>> = None;
    for (name, work) in &mut contenders {
        work.run()?;
        let found = work.result()?;
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs().max(1.0);
        if expected.as_ref().is_some_and(|expected| !found.iter().zip(expected).all(near)) {
            return Err(format!("{case}: {name} on {device} has another result").into());
        }
        expected.get_or_insert(found);
    }
    let rounds = Rounds { min: 5, max: 200, budget };
    let samples = rounds.run(contenders.len(), |at, _| Ok([contenders[at].1.run()?]))?;
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    report.rows(&Case { device, case, n, metrics: ["us_per_run"] }, &Contender::all(&names), &samples);
    Ok(())
}

/// Generated kernels with run-time checks, without, and on another device with them: the same bits. On a busy machine,
/// CPU time says more.
fn compare_checks(name: &str, devices: &[Device], budget: Duration, report: &mut Report) -> Outcome<()> {
    type Make = fn(&Device) -> Outcome<OnDevice>;
    let cases: [(&str, Make); 5] = [
        ("checks-chain", |device| OnDevice::chain(device, None)),
        ("checks-matmul", |device| OnDevice::product(device, None)),
        ("checks-softmax", |device| {
            OnDevice::rows(device, |work, batch| {
                batch.tensor(&work.operands[0], [ROWS, COLUMNS]).softmax().store(&work.output);
            })
        }),
        ("checks-norm", |device| {
            OnDevice::rows(device, |work, batch| {
                batch.tensor(&work.operands[0], [ROWS, COLUMNS]).layer_norm(1e-5).store(&work.output);
            })
        }),
        ("checks-gather", |device| {
            OnDevice::rows(device, |work, batch| {
                let chosen = work.operands[1].reinterpret::<u32>();
                let chosen = batch.tensor(&chosen, [ROWS]);
                batch.tensor(&work.operands[0], [ROWS, COLUMNS]).gather(chosen).store(&work.output);
            })
        }),
    ];
    for (case, make) in cases {
        let mut all = devices.iter().map(make).collect::<Outcome<Vec<_>>>()?;
        let mut results = Vec::new();
        for work in &mut all {
            work.run()?;
            results.push(work.result()?.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
        if results.iter().any(|result| *result != results[0]) {
            return Err(format!("{case}: other bits without checks on {name}").into());
        }
        let rounds = Rounds { min: 5, max: 200, budget };
        let samples = rounds.run(all.len(), |at, _| {
            let cost = Cost::of(Clock::Process, || all[at].run().map(drop))?;
            Ok([cost.wall_us, cost.cpu_us])
        })?;
        let n = all[0].output.len();
        let case = Case { device: name, case, n, metrics: ["us_per_run", "cpu_us_per_run"] };
        report.rows(&case, &Contender::all(&["checked", "unchecked", "control"]), &samples);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    let budget = Duration::from_millis(if args.quick { 900 } else { 10_000 });
    let mut report = Report::new("tensor", args.json);
    let mut across: Contenders = Vec::new();
    let unfused = || DeviceOptions::default().with_planning(Planning { fuse: false, ..Planning::default() });
    for device in ["llvmpipe", "cpu", "swiftshader"] {
        let (Some(fused), Some(plain)) = (open(device, DeviceOptions::default()), open(device, unfused())) else {
            eprintln!("there is no {device} here");
            continue;
        };
        if device != "cpu" {
            let with = |checked| open(device, DeviceOptions::default().with_check_generated(checked));
            let devices: Vec<Device> = [true, false, true].into_iter().filter_map(with).collect();
            compare_checks(device, &devices, budget, &mut report)?;
        }
        if device == "swiftshader" {
            continue;
        }
        let (chain, unfused) = (OnDevice::chain(&fused, None)?, OnDevice::chain(&plain, None)?);
        if device == "cpu" {
            rows::compare(&fused, budget, &mut report)?;
            across.insert(0, ("cpu-fused", Box::new(chain.clone())));
        } else {
            across.push(("lavapipe-fused", Box::new(chain.clone())));
            across.push(("lavapipe-unfused", Box::new(unfused.clone())));
        }
        let chains: Contenders = vec![
            ("sortie-fused", Box::new(chain)),
            ("sortie-unfused", Box::new(unfused)),
            ("hand-fused", Box::new(OnDevice::chain(&fused, Some(BY_HAND))?)),
        ];
        compare(device, "chain", ROWS * COLUMNS, chains, budget, &mut report)?;
        let mut products: Contenders = vec![
            ("sortie", Box::new(OnDevice::product(&fused, None)?)),
            ("naive", Box::new(OnDevice::product(&fused, Some(NAIVE))?)),
        ];
        if device == "cpu" {
            products.push(("gemm", Box::new(ByCrate::new(by_gemm))));
            products.push(("matrixmultiply", Box::new(ByCrate::new(by_matrixmultiply))));
        }
        compare(device, "matmul", SIDE, products, budget, &mut report)?;
    }
    if across.len() == 3 {
        compare("cpu, llvmpipe", "across", ROWS * COLUMNS, across, budget, &mut report)?;
    }
    Ok(())
}
