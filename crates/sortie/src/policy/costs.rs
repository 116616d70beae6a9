//! Learns the cost of work on a device from the time that its submissions take.
//!
//! No API reports how long one op of many took. The measured time is a sum: from when the device could start (it was
//! idle when a submission arrived, or the previous submission was seen to complete) to when the submission's completion
//! was seen. Both ends are seen by threads that may be late, and a driver may compile a kernel when it first runs.
//! Software drivers are measured by CPU time ([`Moment`]), which other processes do not change. Whether an interval
//! changes estimates depends on how reliable it is:
//!
//! | interval | lowers estimates | raises estimates |
//! |---|---|---|
//! | both ends seen on time | to the mean | to the geometric mean |
//! | start seen late: it is too short | no | as above |
//! | end seen late: it is too long | as above | at most by a factor of [`LATE`] |
//! | a pipeline's first run | as above | only of kinds without a measurement, by the time that compiling does not explain, until there is one |
//! | profiled | as above | only of kinds without a measurement |
//! | shorter than [`TELLING`] | as above | no |
//!
//! The first measurement of a kind replaces the guess, less the [`WINDOW`] that its end may have been seen late by. The
//! other kinds keep their estimates if that explains the time. Consecutive submissions are measured together until they
//! fill a [`WINDOW`], so that an end seen slightly late makes little difference.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::clock::Moment;

/// Shorter times say little about the work; in nanoseconds.
const TELLING: f64 = 1e6;
/// A smaller change of an estimate does not change the version.
const MATERIAL: f64 = 1.1;
/// Largest factor by which an interval that is too long raises an estimate.
const LATE: f64 = 2.0;
/// Most time that a driver takes to compile a pipeline at its first run, in nanoseconds. lavapipe and SwiftShader take
/// 90 ms for kernels of tensor operations, and three times that on a busy machine (`scripts/cold`). Watchdogs kill work
/// after 2 s: a submission of one kernel that takes that long is recognized as long after its first run.
const COMPILE: f64 = 500e6;
/// Intervals are joined until they are this long. On a busy machine a waiting thread wakes up some milliseconds late.
const WINDOW: Duration = Duration::from_millis(20);
/// Most submissions that are measured together, if none of them ends late.
const MAX_JOINED: usize = 64;
/// Most kinds of work, and most pipelines, that are kept; past it all are dropped and learned again. A server that
/// generates kernels has ever new ones.
const MAX_COST_KEYS: usize = 1 << 16;

/// An amount of work of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostKey {
    pub(crate) kind: u64,
    pub(crate) units: f64,
    /// The pipeline that the driver compiles for it; 0 if none.
    pub(crate) pipeline: u64,
}

/// The work of a submission, one entry per kind.
#[derive(Debug, Default)]
pub(crate) struct WorkEstimate {
    cost_keys: SmallVec<[CostKey; 2]>,
    pipelines: SmallVec<[u64; 2]>,
    /// It has run before, so all its pipelines have.
    ran: AtomicBool,
}

impl WorkEstimate {
    pub(crate) fn new(cost_keys: impl IntoIterator<Item = CostKey>) -> Self {
        let mut own: SmallVec<[CostKey; 2]> = SmallVec::new();
        let mut pipelines: SmallVec<[u64; 2]> = SmallVec::new();
        let (mut at, mut named) = (FxHashMap::default(), FxHashSet::default());
        for cost_key in cost_keys {
            // Neighbors are mostly of one kind.
            if cost_key.pipeline != 0 && pipelines.last() != Some(&cost_key.pipeline) && named.insert(cost_key.pipeline)
            {
                pipelines.push(cost_key.pipeline);
            }
            match own.last_mut() {
                Some(last) if last.kind == cost_key.kind => last.units += cost_key.units,
                _ => match at.get(&cost_key.kind) {
                    Some(index) => {
                        let known: &mut CostKey = &mut own[*index];
                        known.units += cost_key.units;
                    }
                    None => {
                        at.insert(cost_key.kind, own.len());
                        own.push(cost_key);
                    }
                },
            }
        }
        Self { cost_keys: own, pipelines, ran: AtomicBool::new(false) }
    }
}

/// Submissions whose completion was seen at once.
#[derive(Debug)]
pub(crate) struct FinishedSubmissions<'a> {
    /// The serials of the first and last. Serials start at 1.
    pub(crate) serials: [u64; 2],
    /// When the first was submitted.
    pub(crate) submitted: Moment,
    /// When completion was seen, and whether a thread was waiting for it.
    pub(crate) seen: Moment,
    pub(crate) on_time: bool,
    /// The work of each, if known.
    pub(crate) estimates: &'a [Option<&'a Arc<WorkEstimate>>],
    /// Pipelines that ran for the first time, in addition to those of the estimates.
    pub(crate) compiled: usize,
    /// Profiled submissions take longer than others.
    pub(crate) profiled: bool,
    /// No other submission was in flight.
    pub(crate) idle: bool,
}

#[derive(Debug)]
pub(crate) struct Costs {
    /// Nanoseconds per unit of work that was never measured; 0 on devices where nothing takes time and nothing is
    /// learned.
    default_cost: f64,
    known: Mutex<Known>,
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    each: FxHashMap<u64, Cost>,
    /// Pipelines that have run.
    ran: FxHashSet<u64>,
    /// The serial of the last submission seen to complete, when it was seen, and whether a thread was waiting for it.
    last: (u64, Option<(Moment, bool)>),
    window: Window,
    /// Always empty; kept for its capacity.
    learned: Vec<(u64, Cost)>,
}

#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Nanoseconds per unit.
    each: f64,
    /// The next measurement replaces it.
    provisional: bool,
}

/// Submissions that are measured together.
#[derive(Debug, Default)]
struct Window {
    estimates: Vec<Arc<WorkEstimate>>,
    interval: Interval,
}

/// A time during which a device had work, and its reliability.
#[derive(Clone, Copy, Debug)]
struct Interval {
    time: Duration,
    start_on_time: bool,
    end_on_time: bool,
    /// How much too long it may be although its end was seen on time.
    slack: Duration,
    profiled: bool,
    /// Pipelines that ran for the first time.
    compiled: usize,
}

impl Default for Interval {
    fn default() -> Self {
        let (time, slack) = (Duration::ZERO, Duration::ZERO);
        Self { time, start_on_time: true, end_on_time: true, slack, profiled: false, compiled: 0 }
    }
}

impl Costs {
    pub(crate) fn new(default_cost: f64) -> Self {
        Self { default_cost, known: Mutex::default(), version: AtomicU64::new(0) }
    }

    /// Incremented when an estimate changes noticeably.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Estimated time, in nanoseconds.
    pub(crate) fn estimate(&self, estimate: &WorkEstimate) -> u64 {
        nanoseconds(self.known.lock().estimate(estimate, self.default_cost))
    }

    /// Estimated time of each, in nanoseconds.
    pub(crate) fn each(&self, cost_keys: impl Iterator<Item = CostKey>) -> Vec<u64> {
        let known = self.known.lock();
        let mut last = (u64::MAX, 0.0);
        let cost = |cost_key: CostKey| {
            if cost_key.kind != last.0 {
                last = (cost_key.kind, known.cost(cost_key.kind, self.default_cost));
            }
            // Rounded up, so that parts do not add up to less than the whole.
            nanoseconds((cost_key.units * last.1).ceil())
        };
        cost_keys.map(cost).collect()
    }

    /// Submissions were seen to complete. Returns the time since the device could start them, if known.
    pub(crate) fn record_finished(&self, landed: &FinishedSubmissions<'_>) -> Option<Duration> {
        let mut known = self.known.lock();
        let known = &mut *known;
        let ([first, last], (before, seen_before)) = (landed.serials, known.last);
        // Threads that saw completions arrive in any order. If so, the start is unknown, and a late one is not used.
        if last <= before {
            return None;
        }
        known.last = (last, Some((landed.seen, landed.on_time)));
        if first != before + 1 {
            known.window.clear();
            return None;
        }
        let (start, start_on_time) = match seen_before {
            Some((seen, on_time)) if seen.at > landed.submitted.at => (seen, on_time),
            _ => (landed.submitted, true),
        };
        if self.default_cost > 0.0 {
            let may_close = seen_before.is_none_or(|(_, on_time)| on_time);
            self.measure(known, landed, landed.seen.since(&start), start_on_time, may_close);
        }
        Some(landed.seen.at.saturating_duration_since(start.at))
    }

    /// Adds submissions to the window and learns from it when it closes. Work that runs for the first time, or has no
    /// measurement, is measured alone if the completions before and after it were seen on time.
    fn measure(
        &self,
        known: &mut Known,
        landed: &FinishedSubmissions<'_>,
        time: Duration,
        start_on_time: bool,
        may_close: bool,
    ) {
        let estimates = || landed.estimates.iter().copied().flatten();
        let compiled = landed.compiled + estimates().map(|estimate| known.first_runs(estimate)).sum::<usize>();
        let unknown = landed.estimates.iter().any(Option::is_none);
        let alone = unknown
            || compiled > 0
            || estimates().any(|estimate| estimate.cost_keys.iter().any(|cost_key| known.is_new(cost_key)));
        if alone && may_close && !known.window.estimates.is_empty() {
            self.close(known);
        }
        if unknown {
            return known.window.clear();
        }
        let Window { estimates: joined, interval } = &mut known.window;
        if joined.is_empty() {
            *interval = Interval { start_on_time, slack: WINDOW, ..Interval::default() };
        }
        joined.extend(estimates().cloned());
        interval.time += time;
        interval.end_on_time = landed.on_time;
        interval.profiled |= landed.profiled;
        interval.compiled += compiled;
        let ends = alone || interval.time >= WINDOW || joined.len() >= MAX_JOINED;
        if landed.idle || (ends && landed.on_time) || joined.len() >= 2 * MAX_JOINED {
            self.close(known);
        }
    }

    /// Learns from a submission that had the device to itself and took `time`.
    pub(crate) fn record_alone(&self, estimate: &Arc<WorkEstimate>, time: Duration, profiled: bool) {
        let interval = Interval { time, profiled, ..Interval::default() };
        self.learn(&mut self.known.lock(), std::slice::from_ref(estimate), interval);
    }

    fn close(&self, known: &mut Known) {
        let mut window = std::mem::take(&mut known.window);
        self.learn(known, &window.estimates, window.interval);
        window.clear();
        known.window = window;
    }

    fn learn(&self, known: &mut Known, estimates: &[Arc<WorkEstimate>], interval: Interval) {
        let cost_keys = || estimates.iter().flat_map(|estimate| &estimate.cost_keys);
        let (mut total, mut new) = (0.0, 0.0);
        for cost_key in cost_keys() {
            let cost = cost_key.units * known.cost(cost_key.kind, self.default_cost);
            total += cost;
            new += if known.is_new(cost_key) { cost } else { 0.0 };
        }
        let time = interval.time.as_secs_f64() * 1e9;
        // Measured kinds keep their estimates while new kinds can explain the rest.
        let rest = time - (total - new);
        let only_new = new > 0.0 && rest > 0.0;
        let ratio = if only_new { rest / new } else { time / total };
        let scale = match ratio < 1.0 {
            true => interval.lowers(ratio, only_new),
            false => interval.raises(ratio, if only_new { new } else { total }, time, only_new),
        };
        let Some(scale) = scale.filter(|_| total > 0.0) else { return };
        let provisional = interval.is_provisional(time);
        if known.each.len() > MAX_COST_KEYS {
            known.each.clear();
        }
        let mut learned = std::mem::take(&mut known.learned);
        let changed = cost_keys().filter(|cost_key| !only_new || known.is_new(cost_key));
        learned.extend(changed.map(|cost_key| {
            let each = known.cost(cost_key.kind, self.default_cost) * scale;
            (cost_key.kind, Cost { each, provisional: provisional && known.is_new(cost_key) })
        }));
        known.each.extend(learned.drain(..));
        known.learned = learned;
        if !(1.0 / MATERIAL..MATERIAL).contains(&scale) {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Interval {
    /// The factor for estimates above the measured time.
    fn lowers(&self, ratio: f64, only_new: bool) -> Option<f64> {
        self.start_on_time.then_some(if only_new { ratio } else { f64::midpoint(1.0, ratio) })
    }

    /// The factor for an estimate below the measured time.
    fn raises(&self, ratio: f64, estimate: f64, time: f64, only_new: bool) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let compiling = COMPILE * self.compiled as f64;
        let scale = match (only_new, self.compiled > 0) {
            (true, true) => ratio - compiling / estimate,
            // Too short to contradict the guess. The kind counts as measured, so no later measurement replaces it
            // fully.
            (true, false) if time < TELLING => return Some(1.0),
            (true, false) => ratio.sqrt().max(ratio - self.slack.as_secs_f64() * 1e9 / estimate),
            (false, compiles) if compiles || self.profiled || time < TELLING => return None,
            (false, _) => ratio.sqrt(),
        };
        let most = if self.end_on_time { f64::INFINITY } else { LATE };
        (scale > 1.0).then_some(scale.min(most))
    }

    /// Whether kinds without a measurement still count as unmeasured.
    fn is_provisional(&self, time: f64) -> bool {
        self.compiled > 0 || !self.start_on_time || (!self.end_on_time && time >= TELLING)
    }
}

impl Window {
    fn clear(&mut self) {
        self.estimates.clear();
    }
}

impl Known {
    fn cost(&self, kind: u64, default_cost: f64) -> f64 {
        self.each.get(&kind).map_or(default_cost, |cost| cost.each)
    }

    fn estimate(&self, estimate: &WorkEstimate, default_cost: f64) -> f64 {
        estimate.cost_keys.iter().map(|cost_key| cost_key.units * self.cost(cost_key.kind, default_cost)).sum()
    }

    /// Whether it takes time and has never been measured.
    fn is_new(&self, cost_key: &CostKey) -> bool {
        cost_key.units > 0.0 && self.each.get(&cost_key.kind).is_none_or(|cost| cost.provisional)
    }

    /// Counts pipelines that ran for the first time.
    fn first_runs(&mut self, estimate: &WorkEstimate) -> usize {
        if estimate.pipelines.is_empty() || estimate.ran.swap(true, Ordering::Relaxed) {
            return 0;
        }
        if self.ran.len() > MAX_COST_KEYS {
            self.ran.clear();
        }
        estimate.pipelines.iter().filter(|pipeline| self.ran.insert(**pipeline)).count()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is never negative")]
fn nanoseconds(time: f64) -> u64 {
    time as u64
}

#[cfg(test)]
#[path = "costs/tests.rs"]
mod tests;
