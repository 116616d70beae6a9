//! What joining operations of one kind gains, and what planning costs.
//!
//! `plan`: cold planning, µs per recorded tensor operation: trees of a structure that was not seen before, on noop and
//! on the CPU device, with joining off and on. `perceptron`, `trees`: n instances recorded one by one in one batch, from
//! recording to completion, off and on in turns; `off-again` is a control that must read 1.0×. `known`: the plan is
//! found. `fresh`: every batch has another structure.
//!
//! `cargo bench -p sortie --bench join [-- --quick] [--json] [--only plan,perceptron,trees] [--device NAME]`

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, DeviceOptions, Tensor, device::Planning};
use sortie_bench::{Args, Case, Clock, Contender, Cost, Outcome, Report, Rounds};

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed) % 1999) as f32 / 20_000.0 - 0.05).collect()
}

fn open(device: &str, join: bool) -> Outcome<Device> {
    let planning = Planning { join, ..Planning::default() };
    Ok(Device::open_with(DeviceOptions::default().with_device(device).with_planning(planning))?)
}

/// A device with the weights of both models.
struct Contestant {
    device: Device,
    width: usize,
    left: Buffer<f32>,
    right: Buffer<f32>,
    bias: Buffer<f32>,
    up: Buffer<f32>,
    down: Buffer<f32>,
}

impl Contestant {
    fn new(device: Device, width: usize) -> Outcome<Self> {
        let weights = |rows, columns, seed| device.upload(&floats(rows * columns, seed));
        Ok(Self {
            left: weights(width, 4 * width, 1)?,
            right: weights(width, 4 * width, 2)?,
            bias: weights(1, 4 * width, 3)?,
            up: weights(width, 4 * width, 4)?,
            down: weights(4 * width, width, 5)?,
            device,
            width,
        })
    }

    /// y = x + gelu(x · up) · down, of one request.
    fn perceptron<'b>(&self, batch: &'b Batch, request: usize) -> Tensor<'b, f32> {
        let x = batch.tensor_from(&floats(self.width, request), [1, self.width]);
        let hidden = x.matmul(batch.tensor(&self.up, [self.width, 4 * self.width])).gelu();
        x + hidden.matmul(batch.tensor(&self.down, [4 * self.width, self.width]))
    }

    /// State and memory of a tree of LSTM cells over `leaves` words.
    fn tree<'b>(&self, batch: &'b Batch, random: &mut fastrand::Rng, leaves: usize) -> [Tensor<'b, f32>; 2] {
        let width = self.width;
        if leaves == 1 {
            let seed = random.usize(..1000);
            return [
                batch.tensor_from(&floats(width, seed), [1, width]),
                batch.tensor_from(&floats(width, 0), [1, width]),
            ];
        }
        let split = random.usize(1..leaves);
        let [left, left_memory] = self.tree(batch, random, split);
        let [right, right_memory] = self.tree(batch, random, leaves - split);
        let gates = left.matmul(batch.tensor(&self.left, [width, 4 * width]))
            + right.matmul(batch.tensor(&self.right, [width, 4 * width]))
            + batch.tensor(&self.bias, [4 * width]);
        let gate = |at: usize| gates.slice(&[0..1, at * width..(at + 1) * width]);
        let memory =
            gate(0).sigmoid() * gate(1).tanh() + gate(2).sigmoid() * left_memory + gate(2).sigmoid() * right_memory;
        [gate(3).sigmoid() * memory.tanh(), memory]
    }

    /// Records `count` random trees. Returns the number of tensor operations.
    fn trees(&self, batch: &Batch, seed: u64, count: usize) -> usize {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cells = 0;
        for _ in 0..count {
            let leaves = random.usize(10..=30);
            cells += leaves - 1;
            drop(self.tree(batch, &mut random, leaves)[0].read());
        }
        // Two products, two sums, five slices, four sigmoids, two of tanh, four products of elements, two sums.
        21 * cells
    }
}

fn main() -> Outcome<()> {
    let args = Args::read(&["--device="]);
    let mut report = Report::new("join", args.json);
    if args.selects("plan") {
        for device in ["noop", "cpu"].into_iter().filter(|device| args.matches("--device", device)) {
            planning(device, &args, &mut report)?;
        }
    }
    for device in ["cpu", "llvmpipe", "swiftshader"].into_iter().filter(|device| args.matches("--device", device)) {
        if open(device, false).is_err() {
            continue;
        }
        if args.selects("perceptron") {
            for n in [1, 4, 16, 64, 256] {
                running(device, "perceptron 256", n, &args, &mut report, |own, batch, _| {
                    for request in 0..n {
                        drop(own.perceptron(batch, request).read());
                    }
                })?;
            }
        }
        if args.selects("trees") {
            for n in [1, 4, 64] {
                running(device, "trees 128, known", n, &args, &mut report, |own, batch, _| {
                    own.trees(batch, 1, n);
                })?;
                running(device, "trees 128, fresh", n, &args, &mut report, |own, batch, round| {
                    own.trees(batch, 2 + round as u64, n);
                })?;
            }
        }
    }
    Ok(())
}

fn planning(device: &str, args: &Args, report: &mut Report) -> Outcome<()> {
    let contestants = [Contestant::new(open(device, false)?, 16)?, Contestant::new(open(device, true)?, 16)?];
    for n in [1_000, 10_000, 40_000, 100_000] {
        let rounds = Rounds::new(if args.quick { 3 } else { 9 });
        let samples = rounds.run(2, |contender, round| {
            let own = &contestants[contender];
            let batch = own.device.batch();
            let ops = own.trees(&batch, (n + round) as u64, n / 400);
            let cost = Cost::of(Clock::Thread, || batch.plan().map(drop))?;
            Ok([cost.cpu_us / ops as f64])
        })?;
        let case = Case { device, case: "plan", n, metrics: ["cpu_us_per_op"] };
        report.rows(&case, &[Contender::new("off", 0), Contender::new("on", 0)], &samples);
    }
    Ok(())
}

fn running(
    device: &str,
    case: &str,
    n: usize,
    args: &Args,
    report: &mut Report,
    record: impl Fn(&Contestant, &Batch, usize),
) -> Outcome<()> {
    let width = if case.starts_with("trees") { 128 } else { 256 };
    let contestants: Vec<Contestant> = [false, false, true]
        .into_iter()
        .map(|join| Contestant::new(open(device, join)?, width))
        .collect::<Outcome<_>>()?;
    let budget = Duration::from_secs(if args.quick { 1 } else { 4 });
    let samples = Rounds::within(budget, 5).run(contestants.len(), |contender, round| {
        let own = &contestants[contender];
        let start = Instant::now();
        let batch = own.device.batch();
        record(own, &batch, round);
        batch.submit()?;
        // The first round compiles.
        let time = if round == 0 { f64::NAN } else { start.elapsed().as_secs_f64() * 1e6 };
        Ok([time])
    })?;
    let contenders = [Contender::new("off", 0), Contender::new("off-again", 0), Contender::new("on", 0)];
    report.rows(&Case { device, case, n, metrics: ["us_per_run"] }, &contenders, &samples);
    Ok(())
}
