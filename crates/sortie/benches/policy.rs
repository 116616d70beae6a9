//! What cutting batches into submissions does to how long they take, on each device there is: the same question as `sortie tune` asks, asked by other
//! code, so that its verdict can be checked.
//!
//! `never` is one submission; `every-8` and so on cut after so many ops, `adaptive` after 100 ms by estimate. They record, submit and wait for one
//! batch of `n` dispatches, each of which needs what the last one wrote. `stream-1`, `stream-2` and `stream-3` submit the same as eight whole batches without waiting, with at
//! most so many in flight. `never-again` and `stream-2-again` are controls that must read 1.0×. All take turns; a ratio is the median ratio within a round.
//!
//! `long`: 100,000 dispatches (10,000 with `--quick`) under `Adaptive` with a budget of 20 ms. How many submissions that makes, what the longest is estimated to take (never more
//! than the budget), how many of them took longer all the same, and by how much.
//!
//! `cargo bench -p sortie --bench policy [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, DeviceKind, DeviceOptions, Grid, Kernel, Split, SubmitPolicy, Ticket};

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
/// A gain below this, or below twice what the controls are off, is none.
const WORTHWHILE: f64 = 0.05;
const BUDGET: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq)]
enum Strategy {
    Cut(Split),
    Stream(usize),
}

struct Contender {
    name: String,
    way: Strategy,
    baseline: &'static str,
    times: Vec<f64>,
}

impl Contender {
    fn all(n: usize) -> Vec<Self> {
        let every = [1, 8, 64, 512, 1024].into_iter().filter(|ops| *ops < n);
        let cut = |name: String, split| Self { name, way: Strategy::Cut(split), baseline: "never", times: Vec::new() };
        let mut all = vec![cut("never".into(), Split::Never)];
        all.extend(every.map(|ops| cut(format!("every-{ops}"), Split::Every(ops))));
        all.push(cut("adaptive".into(), Split::default()));
        all.push(cut("never-again".into(), Split::Never));
        for (name, depth) in [("stream-2", 2), ("stream-1", 1), ("stream-3", 3), ("stream-2-again", 2)] {
            all.push(Self { name: name.into(), way: Strategy::Stream(depth), baseline: "stream-2", times: Vec::new() });
        }
        all
    }
}

/// A device with at most so many submissions in flight.
struct Lane {
    device: Device,
    mix: Kernel,
    buffers: [Buffer<u32>; 2],
}

impl Lane {
    fn new(name: &str, in_flight: usize, items: usize) -> sortie::Result<Self> {
        let policy = Some(SubmitPolicy { split: Split::Never, in_flight });
        let device = Device::open_with(DeviceOptions { device: Some(name.into()), policy, ..Default::default() })?;
        let buffers = [device.zeros(items)?, device.zeros(items)?];
        Ok(Self { mix: device.kernel(MIX)?, device, buffers })
    }

    fn record(&self, n: usize) -> Batch {
        let mut batch = self.device.batch();
        for op in 0..n {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.mix, &[x, y], Grid::items(x.len())).immediates(&(op as u32));
        }
        batch
    }

    fn run(&self, way: Strategy, n: usize) -> sortie::Result<f64> {
        let start = Instant::now();
        match way {
            Strategy::Cut(split) => {
                let mut batch = self.record(n);
                batch.split_by(split);
                batch.submit()?;
            }
            Strategy::Stream(_) => {
                let tickets = (0..BATCHES).map(|_| self.record(n / BATCHES).submit_async());
                tickets.collect::<sortie::Result<Vec<_>>>()?.iter().try_for_each(Ticket::wait)?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn main() -> sortie::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let (quick, json) = (has("--quick"), has("--json"));
    let only = args.iter().position(|arg| arg == "--device").and_then(|at| args.get(at + 1));
    let list = Device::list();
    let devices: Vec<(String, String)> = list
        .iter()
        .enumerate()
        .filter(|(_, info)| info.kind != DeviceKind::Noop && info.backend != "gl")
        .map(|(index, info)| (index.to_string(), info.name.clone()))
        .filter(|(_, name)| only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase())))
        .collect();
    let budget = Duration::from_secs_f64(if quick { 4.0 } else { 70.0 }) / (devices.len().max(1) * CASES.len()) as u32;
    for (index, name) in &devices {
        bench(index, name, budget, quick, json)?;
    }
    Ok(())
}

fn bench(index: &str, device: &str, budget: Duration, quick: bool, json: bool) -> sortie::Result<()> {
    if !json {
        println!("\n{device}\n{:<8} {:>6}  {:<16} {:>12} {:>8}", "case", "n", "contender", "µs/op", "ratio");
    }
    let mut rated: Vec<(String, f64)> = Vec::new();
    for (case, items, n) in CASES {
        let n = if quick { n / 4 } else { n };
        let lanes = [Lane::new(index, 1, items)?, Lane::new(index, 2, items)?, Lane::new(index, 3, items)?];
        let lane = |way: Strategy| &lanes[if let Strategy::Stream(depth) = way { depth - 1 } else { 1 }];
        let mut contenders = Contender::all(n);
        // The first run of all compiles and plans.
        for contender in &contenders {
            lane(contender.way).run(contender.way, n)?;
        }
        let (begin, count) = (Instant::now(), contenders.len());
        let mut round = 0;
        while round < if quick { 1 } else { 3 } || begin.elapsed() < budget {
            for turn in 0..count {
                let contender = &mut contenders[(turn + round) % count];
                contender.times.push(lane(contender.way).run(contender.way, n)?);
            }
            round += 1;
        }
        for contender in &contenders {
            let base = contenders.iter().find(|other| other.name == contender.baseline);
            let base = &base.unwrap_or(contender).times;
            let ratio = median(contender.times.iter().zip(base).map(|(own, base)| own / base));
            let micros = median(contender.times.iter().copied()) * 1e6 / n as f64;
            let (name, baseline) = (&contender.name, contender.baseline);
            if json {
                println!(
                    "{{\"bench\":\"policy\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{name}\",\"metric\":\"total_us_per_op\",\"value\":{micros:.4},\"baseline\":\"{baseline}\",\"ratio\":{ratio:.3}}}"
                );
            } else {
                println!("{case:<8} {n:>6}  {name:<16} {micros:>12.3} {ratio:>7.2}x");
            }
            rated.push((name.clone(), ratio));
        }
    }
    let verdict = verdict(&rated);
    let tuned = Device::open_with(DeviceOptions { device: Some(index.into()), ..Default::default() })?.policy();
    if !json {
        println!("verdict: {verdict}; the tuning file, or the default, says {tuned}");
    }
    long(index, device, if quick { 10_000 } else { 100_000 }, json)
}

/// What gains in the mean over all cases, and loses in none.
fn verdict(rated: &[(String, f64)]) -> String {
    let of = |name: &str| rated.iter().filter(|(other, _)| other == name).map(|(_, ratio)| *ratio).collect::<Vec<_>>();
    let controls = rated.iter().filter(|(name, _)| name.ends_with("-again"));
    let noise = controls.map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let margin = WORTHWHILE.max(2.0 * noise);
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
    let depth = best(&["stream"]).unwrap_or_else(|| "2 in flight will do".into());
    format!("{split}; {depth} (margin {:.0} %)", margin * 100.0)
}

/// How well a budget is kept.
fn long(index: &str, device: &str, ops: usize, json: bool) -> sortie::Result<()> {
    let lane = Lane::new(index, 2, 256)?;
    // Estimates are learned from these.
    for _ in 0..2 {
        lane.record(ops / 10).submit()?;
    }
    let mut batch = lane.record(ops);
    batch.split_by(Split::Adaptive { budget: BUDGET });
    let plan = batch.plan()?;
    assert!(plan.longest() <= BUDGET, "{plan:?}");
    let (before, start) = (lane.device.metrics(), Instant::now());
    batch.submit()?;
    let (made, time) = (lane.device.metrics() - before, start.elapsed());
    assert_eq!(made.submissions, plan.submissions() as u64);
    let over = made.overrun_us as f64 / 1e3 / made.overruns.max(1) as f64;
    if json {
        for (metric, value) in [
            ("submissions", made.submissions as f64),
            ("longest_estimate_ms", plan.longest().as_secs_f64() * 1e3),
            ("overruns", made.overruns as f64),
            ("mean_overrun_ms", over),
        ] {
            println!(
                "{{\"bench\":\"policy\",\"device\":\"{device}\",\"case\":\"long\",\"n\":{ops},\"contender\":\"adaptive\",\"metric\":\"{metric}\",\"value\":{value:.3},\"baseline\":\"adaptive\",\"ratio\":1.0}}"
            );
        }
    } else {
        println!(
            "long     {ops}  {} submissions, at most {:.1} ms by estimate ({BUDGET:?} allowed), {:.0} ms in all where {:.0} ms were estimated; {} took longer, by {over:.1} ms on average",
            made.submissions,
            plan.longest().as_secs_f64() * 1e3,
            time.as_secs_f64() * 1e3,
            plan.estimate().as_secs_f64() * 1e3,
            made.overruns
        );
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
