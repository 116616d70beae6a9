//! What a profile costs: the same batch with one and without, taking turns.
//!
//! `plain` records, submits and waits for one batch of `n` dispatches, each of which needs what the last one wrote; `profiled` asks for its profile first, and waits for the batch only;
//! `profiled-read` also has the profile worked out; `traced` is a device whose every batch goes into a trace. `plain-again` is a control that must read 1.0×. A ratio is the median
//! ratio within a round. `large` is dispatches of a million elements, `small` of 1,024, where a timestamp costs as much as what it times.
//!
//! `cargo bench -p sortie --bench profile [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::{Duration, Instant};

use sortie::{Buffer, Device, DeviceKind, DeviceOptions, Grid, Kernel, Split, SubmitPolicy};

const MIX: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn mix_in(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 0.5 * x[id.x] + 1.0; }
    }";

/// Name, elements of a dispatch, dispatches.
const CASES: [(&str, usize, usize); 2] = [("large", 1 << 20, 16), ("small", 1024, 1000)];

#[derive(Clone, Copy, PartialEq)]
enum Strategy {
    Plain,
    Profiled,
    Read,
    Traced,
}

const CONTENDERS: [(&str, Strategy); 5] = [
    ("plain", Strategy::Plain),
    ("profiled", Strategy::Profiled),
    ("profiled-read", Strategy::Read),
    ("traced", Strategy::Traced),
    ("plain-again", Strategy::Plain),
];

/// A device of one's own: what one contender leaves behind is not in another's way.
struct Lane {
    device: Device,
    mix: Kernel,
    buffers: [Buffer<f32>; 2],
    trace: Option<sortie::Trace>,
}

impl Lane {
    fn new(index: &str, items: usize, way: Strategy) -> sortie::Result<Self> {
        // Whole batches: what a device learns would cut one contender's and not another's.
        let policy = Some(SubmitPolicy { split: Split::Never, ..Default::default() });
        let device = Device::open_with(DeviceOptions { device: Some(index.into()), policy, ..Default::default() })?;
        let path = std::env::temp_dir().join(format!("sortie-bench-{}.json", std::process::id()));
        let trace = if way == Strategy::Traced { Some(device.trace(path)?) } else { None };
        let buffers = [device.zeros(items)?, device.zeros(items)?];
        Ok(Self { mix: device.kernel(MIX)?, device, buffers, trace })
    }

    fn run(&self, way: Strategy, n: usize) -> sortie::Result<f64> {
        let start = Instant::now();
        let mut batch = self.device.batch();
        let profile = matches!(way, Strategy::Profiled | Strategy::Read).then(|| batch.profile());
        for op in 0..n {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.mix, &[x, y], Grid::items(x.len()));
        }
        batch.submit()?;
        let profile = match profile {
            Some(profile) if way == Strategy::Read => Some(profile.wait()?),
            _ => None,
        };
        let time = start.elapsed().as_secs_f64();
        if let Some(profile) = profile {
            assert_eq!((profile.submissions(), profile.steps().len()), (1, n));
        }
        Ok(time)
    }
}

fn main() -> sortie::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let (quick, json) = (has("--quick"), has("--json"));
    let only = args.iter().position(|arg| arg == "--device").and_then(|at| args.get(at + 1));
    let devices: Vec<(String, String)> = Device::list()
        .iter()
        .enumerate()
        .filter(|(_, info)| info.kind != DeviceKind::Noop && info.backend != "gl")
        .map(|(index, info)| (index.to_string(), info.name.clone()))
        .filter(|(_, name)| only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase())))
        .collect();
    let budget = Duration::from_secs_f64(if quick { 6.0 } else { 70.0 }) / (devices.len().max(1) * CASES.len()) as u32;
    for (index, name) in &devices {
        if !json {
            println!("\n{name}\n{:<8} {:>6}  {:<16} {:>12} {:>8}", "case", "n", "contender", "µs/op", "ratio");
        }
        for (case, items, n) in CASES {
            bench((index, name), case, items, n, budget, json)?;
        }
    }
    Ok(())
}

fn bench(
    (index, device): (&str, &str),
    case: &str,
    items: usize,
    n: usize,
    budget: Duration,
    json: bool,
) -> sortie::Result<()> {
    let lanes = CONTENDERS.iter().map(|(_, way)| Lane::new(index, items, *way)).collect::<sortie::Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); CONTENDERS.len()];
    // The first run of all compiles and plans.
    for ((_, way), lane) in CONTENDERS.iter().zip(&lanes) {
        lane.run(*way, n)?;
    }
    let begin = Instant::now();
    let mut round = 0;
    while round < 3 || begin.elapsed() < budget {
        for turn in 0..CONTENDERS.len() {
            let turn = (turn + round) % CONTENDERS.len();
            times[turn].push(lanes[turn].run(CONTENDERS[turn].1, n)?);
        }
        round += 1;
    }
    for ((name, _), own) in CONTENDERS.iter().zip(&times) {
        let ratio = median(own.iter().zip(&times[0]).map(|(own, base)| own / base));
        let micros = median(own.iter().copied()) * 1e6 / n as f64;
        if json {
            println!(
                "{{\"bench\":\"profile\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{name}\",\"metric\":\"total_us_per_op\",\"value\":{micros:.4},\"baseline\":\"plain\",\"ratio\":{ratio:.3}}}"
            );
        } else {
            println!("{case:<8} {n:>6}  {name:<16} {micros:>12.3} {ratio:>7.2}x");
        }
    }
    for trace in lanes.into_iter().filter_map(|lane| lane.trace) {
        let path = trace.path().to_owned();
        trace.finish()?;
        drop(std::fs::remove_file(path));
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
