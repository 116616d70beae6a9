//! What a profile costs: the same batch with and without one.
//!
//! `plain` records, submits and waits for one batch of `n` dispatches, each of which reads what the previous one wrote.
//! `profiled` asks for a profile and waits only for the batch; `profiled-read` also waits for the profile; `traced` is a
//! device that writes every batch into a trace. `plain-again` is a control that must read 1.0×. `large` has dispatches of
//! a million elements, `small` of 1,024, where a timestamp costs as much as the dispatch.
//!
//! `cargo bench -p sortie --bench profile [-- --quick] [--json] [--device NAME]`

use std::time::{Duration, Instant};

use sortie::{
    Buffer, Device, DeviceOptions, Grid, Kernel,
    device::DeviceKind,
    policy::{Split, SubmitPolicy},
};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

const MIX: &str = include_str!("kernels/mix.wgsl");

/// Name, elements of a dispatch, dispatches.
const CASES: [(&str, usize, usize); 2] = [("large", 1 << 20, 16), ("small", 1024, 1000)];

#[derive(Clone, Copy, PartialEq)]
enum Profiling {
    Plain,
    Profiled,
    Read,
    Traced,
}

const NAMES: [&str; 5] = ["plain", "profiled", "profiled-read", "traced", "plain-again"];
const PROFILING: [Profiling; 5] =
    [Profiling::Plain, Profiling::Profiled, Profiling::Read, Profiling::Traced, Profiling::Plain];

/// A contender, with a device that no other contender uses.
struct Runner {
    profiling: Profiling,
    device: Device,
    mix: Kernel,
    buffers: [Buffer<f32>; 2],
    trace: Option<sortie::profile::Trace>,
}

impl Runner {
    fn new(index: &str, items: usize, profiling: Profiling) -> sortie::Result<Self> {
        // Whole batches: learned estimates could split one contender's batches and not those of another.
        let policy = Some(SubmitPolicy { split: Split::Never, ..Default::default() });
        let device = Device::open_with(DeviceOptions::default().with_device(index).with_policy(policy))?;
        let path = std::env::temp_dir().join(format!("sortie-bench-{}.json", std::process::id()));
        let trace = if profiling == Profiling::Traced { Some(device.trace(path)?) } else { None };
        let buffers = [device.zeros(items)?, device.zeros(items)?];
        Ok(Self { profiling, mix: device.kernel(MIX)?, device, buffers, trace })
    }

    fn run(&self, n: usize) -> sortie::Result<f64> {
        let start = Instant::now();
        let batch = self.device.batch();
        let profile = matches!(self.profiling, Profiling::Profiled | Profiling::Read).then(|| batch.profile());
        for op in 0..n {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.mix, &[x, y], Grid::items(x.len()));
        }
        batch.submit()?;
        let profile = match profile {
            Some(profile) if self.profiling == Profiling::Read => Some(profile.wait()?),
            _ => None,
        };
        let time = start.elapsed().as_secs_f64();
        if let Some(profile) = profile {
            assert_eq!((profile.submissions(), profile.steps().len()), (1, n));
        }
        Ok(time)
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
    let budget = Duration::from_secs(if args.quick { 6 } else { 70 }) / (devices.len().max(1) * CASES.len()) as u32;
    let mut report = Report::new("profile", args.json);
    for (index, info) in &devices {
        for (case, items, n) in CASES {
            let open = |profiling| Runner::new(&index.to_string(), items, profiling);
            let runners = PROFILING.into_iter().map(open).collect::<sortie::Result<Vec<_>>>()?;
            // The first run compiles and plans.
            runners.iter().try_for_each(|runner| runner.run(n).map(drop))?;
            let rounds = Rounds::within(budget, 3);
            let samples = rounds.run(NAMES.len(), |at, _| Ok([runners[at].run(n)? * 1e6 / n as f64]))?;
            let case = Case { device: &info.name, case, n, metrics: ["total_us_per_op"] };
            report.rows(&case, &Contender::all(&NAMES), &samples);
            for trace in runners.into_iter().filter_map(|runner| runner.trace) {
                let path = trace.path().to_owned();
                trace.finish()?;
                drop(std::fs::remove_file(path));
            }
        }
    }
    Ok(())
}
