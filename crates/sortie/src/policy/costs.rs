//! What work costs on a device, learned from how long its submissions take.
//!
//! Nobody says how long one op of many took, so all that is measured is a sum: the time from a submission's leaving, or from the landing of
//! the one before it, to its own landing. That has the way there and back in it, so it is an upper bound: an estimate above it comes down to it at
//! once, while one below it only believes times that the way does not explain, and goes half of the distance. What has never been measured
//! takes the blame before what has.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Shorter times say little about the work.
const TELLING: f64 = 1e6;
/// An estimate that moves by less changes nothing.
const MATERIAL: f64 = 1.1;
/// Kinds of work known at once; past it all are learned anew. Kernels come and go in a server that generates them.
const MOST: usize = 1 << 16;

/// Work of one kind, of which some amount is to be done; whoever makes one knows what it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chore {
    pub(crate) kind: u64,
    pub(crate) units: f64,
}

/// What a submission has to do, each kind once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effort {
    chores: SmallVec<[Chore; 2]>,
}

impl Effort {
    pub(crate) fn new(chores: impl IntoIterator<Item = Chore>) -> Self {
        let mut own: SmallVec<[Chore; 2]> = SmallVec::new();
        let mut at = FxHashMap::default();
        for chore in chores {
            // Neighbours are mostly alike.
            match own.last_mut() {
                Some(last) if last.kind == chore.kind => last.units += chore.units,
                _ => match at.get(&chore.kind) {
                    Some(index) => {
                        let known: &mut Chore = &mut own[*index];
                        known.units += chore.units;
                    }
                    None => {
                        at.insert(chore.kind, own.len());
                        own.push(chore);
                    }
                },
            }
        }
        Self { chores: own }
    }
}

#[derive(Debug)]
pub(crate) struct Costs {
    /// Nanoseconds per unit of what has never been measured; 0 where nothing takes time and nothing is learned.
    guess: f64,
    known: Mutex<Known>,
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// Nanoseconds per unit.
    each: FxHashMap<u64, f64>,
    landed: Option<Instant>,
}

impl Costs {
    pub(crate) fn new(guess: f64) -> Self {
        Self { guess, known: Mutex::default(), version: AtomicU64::new(0) }
    }

    /// Changes with every estimate.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// How long it will take, in nanoseconds.
    pub(crate) fn estimate(&self, effort: &Effort) -> u64 {
        nanoseconds(self.known.lock().estimate(effort, self.guess))
    }

    /// How long each will take, in nanoseconds.
    pub(crate) fn each(&self, chores: impl Iterator<Item = Chore>) -> Vec<u64> {
        let known = self.known.lock();
        let mut last = (u64::MAX, 0.0);
        let cost = |chore: Chore| {
            if chore.kind != last.0 {
                last = (chore.kind, known.cost(chore.kind, self.guess));
            }
            // Rounded up, so that parts do not come to more than their sum.
            nanoseconds((chore.units * last.1).ceil())
        };
        chores.map(cost).collect()
    }

    /// Submissions have landed together, the first of which left at `left`. Returns how long the device had them. What was `logged` took longer than it would have: it raises nothing that
    /// has been measured.
    pub(crate) fn landed(&self, left: Instant, now: Instant, efforts: &[&Effort], logged: bool) -> Duration {
        let mut known = self.known.lock();
        let since = known.landed.map_or(left, |landed| landed.max(left));
        known.landed = Some(now);
        let time = now.saturating_duration_since(since);
        self.learn(&mut known, efforts, time, logged);
        time
    }

    /// One that had the device to itself took so long.
    pub(crate) fn took(&self, effort: &Effort, time: Duration, logged: bool) {
        self.learn(&mut self.known.lock(), &[effort], time, logged);
    }

    fn learn(&self, known: &mut Known, efforts: &[&Effort], time: Duration, logged: bool) {
        if self.guess == 0.0 {
            return;
        }
        let time = time.as_secs_f64() * 1e9;
        let total: f64 = efforts.iter().map(|effort| known.estimate(effort, self.guess)).sum();
        if total <= 0.0 || (total <= time && time < TELLING) {
            return;
        }
        let chores = || efforts.iter().flat_map(|effort| &effort.chores);
        let new = |known: &Known, chore: &Chore| !known.each.contains_key(&chore.kind);
        let fresh: f64 = chores().filter(|chore| new(known, chore)).map(|chore| chore.units * self.guess).sum();
        if logged && fresh == 0.0 && time > total {
            return;
        }
        // What is known keeps its estimate while something else can explain the rest.
        let (scale, all) = match time - (total - fresh) {
            rest if fresh > 0.0 && rest > 0.0 => (rest / fresh, false),
            _ if time < total => (time / total, true),
            _ => ((time / total).sqrt(), true),
        };
        if known.each.len() > MOST {
            known.each.clear();
        }
        let learned: SmallVec<[(u64, f64); 4]> = chores()
            .filter(|chore| all || new(known, chore))
            .map(|chore| (chore.kind, known.cost(chore.kind, self.guess) * scale))
            .collect();
        let moved = fresh > 0.0 || !(1.0 / MATERIAL..MATERIAL).contains(&scale);
        known.each.extend(learned);
        if moved {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Known {
    fn cost(&self, kind: u64, guess: f64) -> f64 {
        self.each.get(&kind).copied().unwrap_or(guess)
    }

    fn estimate(&self, effort: &Effort, guess: f64) -> f64 {
        effort.chores.iter().map(|chore| chore.units * self.cost(chore.kind, guess)).sum()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is never negative")]
fn nanoseconds(time: f64) -> u64 {
    time as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(chores: &[(u64, f64)]) -> Effort {
        Effort::new(chores.iter().map(|(kind, units)| Chore { kind: *kind, units: *units }))
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_effort_has_each_kind_once() {
        let effort = effort(&[(1, 1.0), (2, 1.0), (1, 2.0), (1, 3.0)]);
        assert_eq!(effort.chores[..], [Chore { kind: 1, units: 6.0 }, Chore { kind: 2, units: 1.0 }]);
    }

    #[test]
    fn what_is_new_costs_what_was_measured_at_once() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1000.0)]);
        assert_eq!(costs.estimate(&work), 1000);
        costs.took(&work, 50 * MS, false);
        assert_eq!(costs.estimate(&work), 50_000_000);
    }

    #[test]
    fn short_times_raise_nothing_but_lower_what_is_above_them() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1000.0)]);
        costs.took(&work, MS / 2, false);
        assert_eq!(costs.estimate(&work), 1000);
        costs.took(&work, MS / 2000, false);
        assert_eq!(costs.estimate(&work), 500);
    }

    #[test]
    fn what_is_known_rises_by_half_of_the_distance_and_falls_by_all_of_it() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1.0)]);
        costs.took(&work, 4 * MS, false);
        costs.took(&work, 16 * MS, false);
        assert_eq!(costs.estimate(&work), 8_000_000);
        costs.took(&work, 2 * MS, false);
        assert_eq!(costs.estimate(&work), 2_000_000);
    }

    #[test]
    fn what_was_logged_raises_nothing_that_is_known() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1.0)]);
        costs.took(&work, 8 * MS, true);
        costs.took(&work, 16 * MS, true);
        assert_eq!(costs.estimate(&work), 8_000_000);
        costs.took(&work, 2 * MS, true);
        assert_eq!(costs.estimate(&work), 2_000_000);
    }

    #[test]
    fn what_is_new_explains_what_the_known_does_not() {
        let costs = Costs::new(1.0);
        let (known, new) = (effort(&[(1, 1.0)]), effort(&[(2, 10.0)]));
        costs.took(&known, 4 * MS, false);
        costs.took(&effort(&[(1, 1.0), (2, 10.0)]), 24 * MS, false);
        assert_eq!(costs.estimate(&known), 4_000_000);
        assert_eq!(costs.estimate(&new), 20_000_000);
    }

    #[test]
    fn the_version_changes_only_with_what_matters() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1.0)]);
        costs.took(&work, 10 * MS, false);
        let version = costs.version();
        costs.took(&work, 11 * MS, false);
        assert_eq!(costs.version(), version);
        costs.took(&work, 20 * MS, false);
        assert_ne!(costs.version(), version);
    }

    #[test]
    fn where_nothing_takes_time_nothing_is_learned() {
        let costs = Costs::new(0.0);
        let work = effort(&[(1, 1000.0)]);
        costs.took(&work, 50 * MS, false);
        assert_eq!(costs.estimate(&work), 0);
    }

    #[test]
    fn time_before_the_last_landing_was_somebody_elses() {
        let costs = Costs::new(1.0);
        let work = effort(&[(1, 1000.0)]);
        let left = Instant::now();
        costs.landed(left, left + 90 * MS, &[&effort(&[(2, 1.0)])], false);
        costs.landed(left, left + 95 * MS, &[&work], false);
        assert_eq!(costs.estimate(&work), 5_000_000);
    }
}
