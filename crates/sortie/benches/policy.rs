//! What splitting batches into submissions does to their time, on each device. `sortie tune` measures the same with other
//! code; this bench checks its verdict.
//!
//! `never` is one submission; `every-8` and so on split after that number of ops; `adaptive` splits after 100 ms by
//! estimate. They record, submit and wait for one batch of `n` dispatches, each of which reads what the previous one
//! wrote. `stream-1`, `stream-2` and `stream-3` submit the same as eight whole batches without waiting, with at most that
//! number in flight. `never-again` and `stream-2-again` are controls that must read 1.0×.
//!
//! `long`: 100,000 dispatches (10,000 with `--quick`) under `Adaptive` with a budget of 20 ms: the number of submissions,
//! the longest estimate (never above the budget), how many submissions took longer, and by how much.
//!
//! `cargo bench -p sortie --bench policy [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its verdict")]

use std::time::{Duration, Instant};

use sortie::{
    Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Ticket,
    device::DeviceKind,
    policy::{Split, SubmitPolicy},
};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

const MIX: &str = "
    var<immediate> by: u32;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 3u * x[id.x] + by; }
    }";

/// Name, elements of a dispatch, dispatches.
const CASES: [(&str, usize, usize); 3] = [("small", 1000, 2000), ("medium", 50_000, 320), ("large", 1_000_000, 16)];
const BATCHES: usize = 8;
/// A smaller gain, or one below twice the error of the controls, does not count.
const MIN_GAIN: f64 = 0.05;
const BUDGET: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq)]
enum Submission {
    Whole(Split),
    Stream { in_flight: usize },
}

/// All contenders; those that stream are compared with `stream-2`, the others with `never`.
fn contenders(n: usize) -> (Vec<Contender>, Vec<Submission>) {
    let mut all = vec![("never".to_owned(), Submission::Whole(Split::Never))];
    let every = [1, 8, 64, 512, 1024].into_iter().filter(|ops| *ops < n);
    all.extend(every.map(|ops| (format!("every-{ops}"), Submission::Whole(Split::Every(ops)))));
    all.push(("adaptive".into(), Submission::Whole(Split::default())));
    all.push(("never-again".into(), Submission::Whole(Split::Never)));
    let stream = all.len();
    for (name, in_flight) in [("stream-2", 2), ("stream-1", 1), ("stream-3", 3), ("stream-2-again", 2)] {
        all.push((name.into(), Submission::Stream { in_flight }));
    }
    let contender = |(at, (name, submission))| (Contender::new(name, if at < stream { 0 } else { stream }), submission);
    all.into_iter().enumerate().map(contender).unzip()
}

/// A device with a limit for submissions in flight.
struct Runner {
    device: Device,
    mix: Kernel,
    buffers: [Buffer<u32>; 2],
}

impl Runner {
    fn new(name: &str, in_flight: usize, items: usize) -> sortie::Result<Self> {
        let policy = Some(SubmitPolicy { split: Split::Never, in_flight });
        let device = Device::open_with(DeviceOptions::default().with_device(name).with_policy(policy))?;
        let buffers = [device.zeros(items)?, device.zeros(items)?];
        Ok(Self { mix: device.kernel(MIX)?, device, buffers })
    }

    fn record(&self, n: usize) -> Batch {
        let batch = self.device.batch();
        for op in 0..n {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.mix, &[x, y], Grid::items(x.len())).immediates(&(op as u32));
        }
        batch
    }

    fn run(&self, submission: Submission, n: usize) -> sortie::Result<f64> {
        let start = Instant::now();
        match submission {
            Submission::Whole(split) => {
                let batch = self.record(n);
                batch.split_by(split);
                batch.submit()?;
            }
            Submission::Stream { .. } => {
                let tickets = (0..BATCHES).map(|_| self.record(n / BATCHES).submit_async());
                tickets.collect::<sortie::Result<Vec<_>>>()?.iter().try_for_each(Ticket::wait)?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn main() -> Outcome<()> {
    let args = Args::read(&["--device="]);
    let list = Device::list().into_iter().enumerate();
    let devices: Vec<_> = list
        .filter(|(_, info)| {
            info.kind != DeviceKind::Noop && info.backend != "gl" && args.matches("--device", &info.name)
        })
        .collect();
    let budget = Duration::from_secs(if args.quick { 4 } else { 70 }) / (devices.len().max(1) * CASES.len()) as u32;
    let mut report = Report::new("policy", args.json);
    for (index, info) in devices {
        bench(&index.to_string(), &info.name, budget, &args, &mut report)?;
    }
    Ok(())
}

fn bench(index: &str, device: &str, budget: Duration, args: &Args, report: &mut Report) -> Outcome<()> {
    let mut ratios: Vec<(String, f64)> = Vec::new();
    for (case, items, n) in CASES {
        let n = if args.quick { n / 4 } else { n };
        let runners = [Runner::new(index, 1, items)?, Runner::new(index, 2, items)?, Runner::new(index, 3, items)?];
        let (contenders, submissions) = contenders(n);
        let run = |at: usize| match submissions[at] {
            Submission::Stream { in_flight } => runners[in_flight - 1].run(submissions[at], n),
            Submission::Whole(_) => runners[1].run(submissions[at], n),
        };
        // The first run compiles and plans.
        (0..contenders.len()).try_for_each(|at| run(at).map(drop))?;
        let rounds = Rounds::within(budget, if args.quick { 1 } else { 3 });
        let samples = rounds.run(contenders.len(), |at, _| Ok([run(at)? * 1e6 / n as f64]))?;
        report.rows(&Case { device, case, n, metrics: ["total_us_per_op"] }, &contenders, &samples);
        let rated = contenders.into_iter().enumerate();
        ratios.extend(rated.map(|(at, contender)| (contender.name, samples.ratio(at, contender.baseline, 0))));
    }
    let verdict = verdict(&ratios);
    let tuned = Device::open_with(DeviceOptions::default().with_device(index))?.policy();
    if !args.json {
        println!("verdict: {verdict}; the tuning file, or the default, says {tuned}");
    }
    long(index, device, if args.quick { 10_000 } else { 100_000 }, report)
}

/// What gains in the geometric mean of all cases and loses in none.
fn verdict(rated: &[(String, f64)]) -> String {
    let of = |name: &str| rated.iter().filter(|(other, _)| other == name).map(|(_, ratio)| *ratio).collect::<Vec<_>>();
    let controls = rated.iter().filter(|(name, _)| name.ends_with("-again"));
    let noise = controls.map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let margin = MIN_GAIN.max(2.0 * noise);
    let best = |prefixes: &[&str]| {
        let mut names: Vec<&str> = rated.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("-again"));
        let mean = |name: &str| (of(name).iter().map(|ratio| ratio.ln()).sum::<f64>() / CASES.len() as f64).exp();
        let gains = |name: &&str| mean(name) < 1.0 - margin && of(name).iter().all(|ratio| *ratio < 1.0 + margin);
        let best = names.into_iter().filter(gains).min_by(|one, other| mean(one).total_cmp(&mean(other)));
        best.map(|name| format!("{name} takes {:.2} of the time", mean(name)))
    };
    let split = best(&["every", "adaptive"]).unwrap_or_else(|| "no benefit from splitting".into());
    let depth = best(&["stream"]).unwrap_or_else(|| "2 in flight are enough".into());
    format!("{split}; {depth} (margin {:.0} %)", margin * 100.0)
}

/// How well a budget is kept.
fn long(index: &str, device: &str, ops: usize, report: &mut Report) -> Outcome<()> {
    let runner = Runner::new(index, 2, 256)?;
    // Estimates are learned from these.
    for _ in 0..2 {
        runner.record(ops / 10).submit()?;
    }
    let batch = runner.record(ops);
    batch.split_by(Split::Adaptive { budget: BUDGET });
    let plan = batch.plan()?;
    assert!(plan.longest() <= BUDGET, "{plan:?}");
    let (before, start) = (runner.device.metrics(), Instant::now());
    batch.submit()?;
    let (made, time) = (runner.device.metrics() - before, start.elapsed());
    assert_eq!(made.submissions, plan.submissions() as u64);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let values = [
        made.submissions as f64,
        ms(plan.longest()),
        ms(plan.estimate()),
        ms(time),
        made.overruns as f64,
        made.overrun_us as f64 / 1e3 / made.overruns.max(1) as f64,
    ];
    let metrics =
        ["submissions", "longest_estimate_ms", "total_estimate_ms", "total_ms", "overruns", "mean_overrun_ms"];
    let samples = Rounds::new(1).run(1, |_, _| Ok(values))?;
    report.rows(&Case { device, case: "long", n: ops, metrics }, &Contender::all(&["adaptive"]), &samples);
    Ok(())
}
