//! How well `Split::Adaptive` keeps its budget, on each device. What splitting does to the time of a batch is measured by
//! `sortie tune`.
//!
//! 100,000 dispatches (10,000 with `--quick`), each of which reads what the previous one wrote, with a budget of 20 ms:
//! the number of submissions, the longest estimate (never above the budget), how many submissions took longer, and by how
//! much.
//!
//! `cargo bench -p sortie --bench policy [-- --quick] [--json] [--device NAME]`

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, device::DeviceKind, policy::Split};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

const MIX: &str = include_str!("kernels/mix_immediate.wgsl");

const ITEMS: usize = 256;
const BUDGET: Duration = Duration::from_millis(20);

struct Runner {
    device: Device,
    mix: Kernel,
    buffers: [Buffer<u32>; 2],
}

impl Runner {
    fn new(name: &str) -> sortie::Result<Self> {
        let device = Device::open_with(DeviceOptions::default().with_device(name))?;
        let buffers = [device.zeros(ITEMS)?, device.zeros(ITEMS)?];
        Ok(Self { mix: device.kernel(MIX)?, device, buffers })
    }

    fn record(&self, ops: usize, split: Split) -> Batch {
        let batch = self.device.batch();
        for op in 0..ops {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.mix, &[x, y], Grid::items(ITEMS)).immediates(&(op as u32));
        }
        batch.split_by(split);
        batch
    }
}

fn main() -> Outcome<()> {
    let args = Args::read(&["--device="]);
    let mut report = Report::new("policy", args.json);
    for (index, info) in Device::list().into_iter().enumerate() {
        if info.kind != DeviceKind::Noop && info.backend != "gl" && args.matches("--device", &info.name) {
            bench(&index.to_string(), &info.name, if args.quick { 10_000 } else { 100_000 }, &mut report)?;
        }
    }
    Ok(())
}

/// How well a budget is kept.
fn bench(index: &str, device: &str, ops: usize, report: &mut Report) -> Outcome<()> {
    let runner = Runner::new(index)?;
    // Estimates are learned from these.
    for _ in 0..2 {
        runner.record(ops / 10, Split::Never).submit()?;
    }
    let batch = runner.record(ops, Split::Adaptive { budget: BUDGET });
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
