//! The measurements behind [`TuneReport`](super::TuneReport).
//!
//! Contenders take turns, in a different order in each round, and a ratio is the median of the ratios within rounds, so
//! varying load slows all of them. A control is the baseline under another name: its deviation from 1 is the noise of
//! the other ratios.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    matmul::MatmulReport,
    report::{ItemTiming, Strategy, Timing, Workload},
};
use crate::{
    batch::{Batch, Grid, Record},
    clock::Instant,
    device::{Buffer, Device, default_policy},
    error::Result,
    finish::Ticket,
    kernel::Kernel,
    options::DeviceOptions,
    policy::{Split, SubmitPolicy},
};

const WORKS: [Workload; 3] = [
    Workload { name: "small", items: 1 << 10, ops: 2048 },
    Workload { name: "medium", items: 1 << 16, ops: 512 },
    Workload { name: "large", items: 1 << 20, ops: 48 },
];
/// A run that takes longer gets fewer ops.
const LONG: Duration = Duration::from_millis(200);
const MIN_OPS: usize = 16;
/// Batches of a run that measures depth.
pub(super) const STREAM: usize = 4;
const ROUNDS: RangeInclusive<usize> = 3..=25;

const STEP: &str = include_str!("../../kernels/step.wgsl");

/// A device with the kernel of the contenders.
struct TestDevice {
    device: Device,
    step: Kernel,
}

impl TestDevice {
    fn new(options: &DeviceOptions, in_flight: usize) -> Result<Self> {
        let policy = Some(SubmitPolicy { split: Split::Never, in_flight });
        let device = Device::open_with(options.clone().with_policy(policy))?;
        Ok(Self { step: device.kernel(STEP)?, device })
    }

    fn record(&self, [x, y]: &[Buffer<u32>; 2], ops: usize) -> Batch {
        let batch = self.device.batch();
        for op in 0..ops {
            let (from, to) = if op % 2 == 0 { (x, y) } else { (y, x) };
            batch.dispatch(&self.step, &[from, to], Grid::items(x.len()));
        }
        batch
    }

    fn run(&self, buffers: &[Buffer<u32>; 2], ops: usize, way: Strategy) -> Result<()> {
        match way {
            Strategy::Cut(split) => {
                let batch = self.record(buffers, ops);
                batch.split_by(split);
                batch.submit()
            }
            Strategy::Depth(_) => {
                let batches = (0..STREAM).map(|_| self.record(buffers, ops / STREAM).submit_async());
                batches.collect::<Result<Vec<_>>>()?.iter().try_for_each(Ticket::wait)
            }
        }
    }
}

/// The raw measurements.
pub(super) struct Measured {
    /// The default policy of a device of its kind.
    pub(super) usual: SubmitPolicy,
    pub(super) products: MatmulReport,
    pub(super) works: Vec<Workload>,
    pub(super) timings: Vec<Timing>,
    pub(super) churn: Vec<ItemTiming>,
}

/// Measures for about `time`; calls `progress` now and then with the completed fraction.
pub(super) fn measure(options: &DeviceOptions, time: Duration, progress: &mut dyn FnMut(f64)) -> Result<Measured> {
    let start = Instant::now();
    let grounds = [TestDevice::new(options, 1)?, TestDevice::new(options, 2)?, TestDevice::new(options, 3)?];
    let mut told = || progress((start.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0));
    let products = grounds[1].device.tune()?;
    told();
    let (mut works, mut timings) = (Vec::new(), Vec::new());
    // The last part of the time is for the items.
    let part = time / (WORKS.len() as u32 + 1);
    for (number, work) in (1..).zip(WORKS) {
        let (work, measured) = rounds(&grounds, work, start + part * number, &mut told)?;
        works.push(work);
        timings.extend(measured);
    }
    let mut churned = Vec::new();
    for (left, items) in [(3, 1), (2, 10), (1, 100)] {
        let own = time.saturating_sub(start.elapsed()) / left;
        churned.push(churn(&grounds[1], items, Instant::now() + own)?);
        told();
    }
    progress(1.0);
    let usual = default_policy(grounds[1].device.info().kind);
    Ok(Measured { usual, products, works, timings, churn: churned })
}

/// Runs all ways of one workload in turn.
fn rounds(
    grounds: &[TestDevice; 3],
    mut work: Workload,
    end: Instant,
    told: &mut dyn FnMut(),
) -> Result<(Workload, Vec<Timing>)> {
    let buffers = grounds.each_ref().map(|ground| -> Result<[Buffer<u32>; 2]> {
        Ok([ground.device.zeros(work.items)?, ground.device.zeros(work.items)?])
    });
    let [first, second, third] = buffers;
    let buffers = [first?, second?, third?];
    let run = |way: Strategy, ops: usize| {
        let on = if let Strategy::Depth(depth) = way { depth - 1 } else { 1 };
        timed(|| grounds[on].run(&buffers[on], ops, way))
    };
    // The first run compiles; the second gives the time of one.
    run(Strategy::Cut(Split::Never), work.ops)?;
    let once = run(Strategy::Cut(Split::Never), work.ops)?;
    if once > LONG {
        let fewer = work.ops as f64 * LONG.as_secs_f64() / once.as_secs_f64();
        work.ops = (fewer as usize).max(MIN_OPS);
    }
    let contenders = Strategy::all(work);
    for (way, _) in &contenders {
        run(*way, work.ops)?;
        told();
    }
    let times = in_turn(contenders.len(), ROUNDS, end, |at| {
        let time = run(contenders[at].0, work.ops);
        told();
        time
    })?;
    let timing = |((way, control), own): (&(Strategy, bool), &Vec<Duration>)| {
        let base = contenders.iter().position(|other| *other == (way.baseline(), false)).map_or(own, |at| &times[at]);
        Timing { work, way: *way, control: *control, time: median_time(own), ratio: median_ratio(own, base) }
    };
    let timings = contenders.iter().zip(&times).map(timing).collect();
    Ok((work, timings))
}

/// A copy and a dispatch that depends on it.
struct Piece<'a> {
    ground: &'a TestDevice,
    buffers: &'a [Buffer<u32>; 2],
}

impl Record<'_> for Piece<'_> {
    type Output = ();

    fn label(&self) -> &str {
        "piece"
    }

    fn record(&self, batch: &Batch) {
        let [x, y] = self.buffers;
        batch.copy(x, y);
        batch.dispatch(&self.ground.step, &[y, x], Grid::items(x.len()));
    }
}

fn churn(ground: &TestDevice, items: usize, end: Instant) -> Result<ItemTiming> {
    let buffers = (0..items).map(|_| Ok([ground.device.zeros(1024)?, ground.device.zeros(1024)?]));
    let buffers = buffers.collect::<Result<Vec<_>>>()?;
    let pieces: Vec<_> = buffers.iter().map(|buffers| Piece { ground, buffers }).collect();
    let one_by_one = || {
        let batch = |piece: &Piece<'_>| {
            let batch = ground.device.batch();
            batch.record(piece);
            batch.submit_async()
        };
        let tickets = pieces.iter().map(batch).collect::<Result<Vec<_>>>()?;
        tickets.iter().try_for_each(Ticket::wait)
    };
    let op_by_op = || {
        let batch = ground.device.batch();
        for [x, y] in &buffers {
            batch.copy(x, y);
            batch.dispatch(&ground.step, &[y, x], Grid::items(x.len()));
        }
        batch.submit()
    };
    let together = || {
        let batch = ground.device.batch();
        pieces.iter().for_each(|piece| batch.record(piece));
        batch.submit()
    };
    // The last is the control.
    let ways: [&dyn Fn() -> Result<()>; 4] = [&one_by_one, &op_by_op, &together, &together];
    ways.iter().try_for_each(|way| way())?;
    let times = in_turn(ways.len(), *ROUNDS.end()..=1000, end, |at| timed(ways[at]))?;
    let ratio = |at: usize| median_ratio(&times[at], &times[2]);
    Ok(ItemTiming {
        items,
        one_by_one: median_time(&times[0]),
        op_by_op: median_time(&times[1]),
        together: median_time(&times[2]),
        ratio: ratio(0),
        op_by_op_ratio: ratio(1),
        control: ratio(3),
    })
}

/// Runs all contenders in turn, in a different order each round, until `end`. Returns the times of each.
pub(super) fn in_turn(
    contenders: usize,
    rounds: RangeInclusive<usize>,
    end: Instant,
    mut run: impl FnMut(usize) -> Result<Duration>,
) -> Result<Vec<Vec<Duration>>> {
    let mut times = vec![Vec::new(); contenders];
    for round in 0..*rounds.end() {
        if round >= *rounds.start() && Instant::now() >= end {
            break;
        }
        for turn in 0..contenders {
            let at = (turn + round * 3) % contenders;
            let at = if round % 2 == 0 { at } else { contenders - 1 - at };
            times[at].push(run(at)?);
        }
    }
    Ok(times)
}

/// The time that `run` takes.
pub(super) fn timed(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

pub(super) fn median_time(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The median of the ratios within rounds.
fn median_ratio(times: &[Duration], base: &[Duration]) -> f64 {
    let ratios = times.iter().zip(base).map(|(own, base)| own.as_secs_f64() / base.as_secs_f64());
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
}
