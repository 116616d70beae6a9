//! What work costs on a device, learned from how long its submissions take.
//!
//! Nothing reports how long one op of many took. What is measured is a sum: the time from when the device could begin (it was idle when a submission came, or the submission before
//! it was seen to complete) to when the completion of a submission was seen. Both ends are seen by threads that may be late, and a driver may compile a kernel
//! when it first runs. Software drivers are measured by what they compute ([`Moment`]), which other processes do not change. It depends on what is known of an interval whether it moves estimates:
//!
//! | interval | lowers estimates | raises estimates |
//! |---|---|---|
//! | both ends seen on time | to the middle | to the geometric middle |
//! | start seen late: it is too short | no | as above |
//! | end seen late: it is too long | as above | at most to [`LATE`] times what they were |
//! | a pipeline's first run | as above | only of kinds without a measurement, by what compilation does not explain, until there is one |
//! | profiled | as above | only of kinds without a measurement |
//! | shorter than [`TELLING`] | as above | no |
//!
//! The first measurement of a kind replaces the guess, less the [`WINDOW`] that its end may have been seen late by, and the others keep their estimates while that explains the time. Submissions that follow one
//! another are measured together until they make up a [`WINDOW`]: an end that was seen a little late then makes little difference.

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

/// Shorter times say little about the work, in nanoseconds.
const TELLING: f64 = 1e6;
/// An estimate that moves by less changes nothing.
const MATERIAL: f64 = 1.1;
/// By how much an interval that is too long raises an estimate at most.
const LATE: f64 = 2.0;
/// What a driver may take to compile a pipeline when it first runs, in nanoseconds. Kernels of tensor operations take lavapipe and SwiftShader 90 ms, and three times that on a busy
/// machine (`scripts/cold`). A watchdog ends what takes 2 s: a submission of one kernel that took that long is known to be long after its first run.
const COMPILE: f64 = 500e6;
/// Intervals are joined until they are this long. A thread that waits on a busy machine is woken some milliseconds late.
const WINDOW: Duration = Duration::from_millis(20);
/// Submissions that are measured together, if none of them ends late.
const MOST_JOINED: usize = 64;
/// Kinds of work, and pipelines, known at once; past it all are learned anew. Kernels come and go in a server that generates them.
const MOST: usize = 1 << 16;

/// Work of one kind, of which some amount is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostKey {
    pub(crate) kind: u64,
    pub(crate) units: f64,
    /// What the driver compiles for it; 0 where it compiles nothing.
    pub(crate) pipeline: u64,
}

/// What a submission has to do, each kind once.
#[derive(Debug, Default)]
pub(crate) struct WorkEstimate {
    chores: SmallVec<[CostKey; 2]>,
    pipelines: SmallVec<[u64; 2]>,
    /// It has run before, so its pipelines have.
    ran: AtomicBool,
}

impl WorkEstimate {
    pub(crate) fn new(chores: impl IntoIterator<Item = CostKey>) -> Self {
        let mut own: SmallVec<[CostKey; 2]> = SmallVec::new();
        let mut pipelines: SmallVec<[u64; 2]> = SmallVec::new();
        let (mut at, mut named) = (FxHashMap::default(), FxHashSet::default());
        for cost_key in chores {
            // Neighbours are mostly alike.
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
        Self { chores: own, pipelines, ran: AtomicBool::new(false) }
    }
}

/// Submissions whose completion was seen together.
#[derive(Debug)]
pub(crate) struct FinishedSubmissions<'a> {
    /// The serials of the first and of the last. Submissions are numbered from 1 on.
    pub(crate) serials: [u64; 2],
    /// When the first was submitted.
    pub(crate) submitted: Moment,
    /// When that was, and whether a thread was waiting for it.
    pub(crate) seen: Moment,
    pub(crate) on_time: bool,
    /// What each had to do, if that is known.
    pub(crate) estimates: &'a [Option<&'a Arc<WorkEstimate>>],
    /// Pipelines that ran for the first time, beside those of the efforts.
    pub(crate) compiled: usize,
    /// What is profiled takes longer than it would.
    pub(crate) profiled: bool,
    /// No other submission was in flight then.
    pub(crate) idle: bool,
}

#[derive(Debug)]
pub(crate) struct Costs {
    /// Nanoseconds per unit of what has never been measured; 0 where nothing takes time and nothing is learned.
    default_cost: f64,
    known: Mutex<Known>,
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    each: FxHashMap<u64, Cost>,
    /// Pipelines that have run.
    ran: FxHashSet<u64>,
    /// The serial of the last submission that was seen to complete, when that was, and whether a thread was waiting for it.
    last: (u64, Option<(Moment, bool)>),
    window: Window,
    /// Empty; used again and again.
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

/// A time that a device had work, and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Interval {
    time: Duration,
    start_on_time: bool,
    end_on_time: bool,
    /// By how much it may be too long although its end was seen on time.
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

    /// Changes with every estimate.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// How long it will take, in nanoseconds.
    pub(crate) fn estimate(&self, estimate: &WorkEstimate) -> u64 {
        nanoseconds(self.known.lock().estimate(estimate, self.default_cost))
    }

    /// How long each will take, in nanoseconds.
    pub(crate) fn each(&self, chores: impl Iterator<Item = CostKey>) -> Vec<u64> {
        let known = self.known.lock();
        let mut last = (u64::MAX, 0.0);
        let cost = |cost_key: CostKey| {
            if cost_key.kind != last.0 {
                last = (cost_key.kind, known.cost(cost_key.kind, self.default_cost));
            }
            // Rounded up, so that parts do not come to more than their sum.
            nanoseconds((cost_key.units * last.1).ceil())
        };
        chores.map(cost).collect()
    }

    /// Submissions were seen to complete. Returns how long ago the device could begin them, as far as that is known.
    pub(crate) fn landed(&self, landed: &FinishedSubmissions<'_>) -> Option<Duration> {
        let mut known = self.known.lock();
        let known = &mut *known;
        let ([first, last], (before, seen_before)) = (landed.serials, known.last);
        // Threads that saw completions get here in any order. What came before is then not known, and what is late is worth nothing.
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
            self.measure(known, landed, landed.seen.since(&start), [start_on_time, may_close]);
        }
        Some(landed.seen.at.saturating_duration_since(start.at))
    }

    /// Has submissions join what is measured, and learns from it where it ends. What runs for the first time, or has no measurement, is measured by itself
    /// where the completions before and after it were seen on time.
    fn measure(
        &self,
        known: &mut Known,
        landed: &FinishedSubmissions<'_>,
        time: Duration,
        [start_on_time, may_close]: [bool; 2],
    ) {
        let estimates = || landed.estimates.iter().copied().flatten();
        let compiled = landed.compiled + estimates().map(|estimate| known.first_runs(estimate)).sum::<usize>();
        let unknown = landed.estimates.iter().any(Option::is_none);
        let alone = unknown
            || compiled > 0
            || estimates().any(|estimate| estimate.chores.iter().any(|cost_key| known.is_new(cost_key)));
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
        let ends = alone || interval.time >= WINDOW || joined.len() >= MOST_JOINED;
        if landed.idle || (ends && landed.on_time) || joined.len() >= 2 * MOST_JOINED {
            self.close(known);
        }
    }

    /// One that had the device to itself took this long.
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
        let chores = || estimates.iter().flat_map(|estimate| &estimate.chores);
        let (mut total, mut new) = (0.0, 0.0);
        for cost_key in chores() {
            let cost = cost_key.units * known.cost(cost_key.kind, self.default_cost);
            total += cost;
            new += if known.is_new(cost_key) { cost } else { 0.0 };
        }
        let time = interval.time.as_secs_f64() * 1e9;
        // What has been measured keeps its estimate while something else can explain the rest.
        let rest = time - (total - new);
        let only_new = new > 0.0 && rest > 0.0;
        let ratio = if only_new { rest / new } else { time / total };
        let scale = match ratio < 1.0 {
            true => interval.lowers(ratio, only_new),
            false => interval.raises(ratio, if only_new { new } else { total }, time, only_new),
        };
        let Some(scale) = scale.filter(|_| total > 0.0) else { return };
        let provisional = interval.is_provisional(time);
        if known.each.len() > MOST {
            known.each.clear();
        }
        let mut learned = std::mem::take(&mut known.learned);
        let changed = chores().filter(|cost_key| !only_new || known.is_new(cost_key));
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
    /// What estimates above the measured time are multiplied by.
    fn lowers(&self, ratio: f64, only_new: bool) -> Option<f64> {
        self.start_on_time.then_some(if only_new { ratio } else { f64::midpoint(1.0, ratio) })
    }

    /// What an estimate below the measured time is multiplied by.
    fn raises(&self, ratio: f64, estimate: f64, time: f64, only_new: bool) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let compiling = COMPILE * self.compiled as f64;
        let scale = match (only_new, self.compiled > 0) {
            (true, true) => ratio - compiling / estimate,
            // Short enough to be what was guessed: no later measurement is to replace that wholly.
            (true, false) if time < TELLING => return Some(1.0),
            (true, false) => ratio.sqrt().max(ratio - self.slack.as_secs_f64() * 1e9 / estimate),
            (false, compiles) if compiles || self.profiled || time < TELLING => return None,
            (false, _) => ratio.sqrt(),
        };
        let most = if self.end_on_time { f64::INFINITY } else { LATE };
        (scale > 1.0).then_some(scale.min(most))
    }

    /// Whether something without a measurement still has none.
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
        estimate.chores.iter().map(|cost_key| cost_key.units * self.cost(cost_key.kind, default_cost)).sum()
    }

    /// Whether it takes time and has never been measured.
    fn is_new(&self, cost_key: &CostKey) -> bool {
        cost_key.units > 0.0 && self.each.get(&cost_key.kind).is_none_or(|cost| cost.provisional)
    }

    /// How many pipelines have run for the first time.
    fn first_runs(&mut self, estimate: &WorkEstimate) -> usize {
        if estimate.pipelines.is_empty() || estimate.ran.swap(true, Ordering::Relaxed) {
            return 0;
        }
        if self.ran.len() > MOST {
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
