//! How long batches take on a device, as a line: so much for a batch at all, and so much for each of its rows.
//!
//! Pure. Learned from service times alone, what the device itself takes: end-to-end latencies grow with the queue, and whoever sizes batches by those
//! ends with batches of one row.
//!
//! Invariant: neither part of the line is negative.

use std::time::Duration;

/// What a flight weighs after one more: some thirty count.
const MEMORY: f64 = 0.97;
/// Flights in a row that took twice or half of what was thought, after which what was known is forgotten: the device is another one now.
const SURPRISES: i32 = 3;
/// What a flight may take at first, as a multiple of what is thought; the most that is allowed for; and what is kept of the excess after one more. The longest of some hundred flights is allowed for,
/// because a request sees up to three through, and one of a hundred requests may be late.
const SWING: f64 = 1.5;
const WIDEST: f64 = 10.0;
const KEPT: f64 = 0.998;
/// A single flight that took more than this many times what was thought counts as if it had taken that many: a thread that was not run for a while says nothing about the device.
const STALLED: f64 = 2.0;
/// Where a flight may take more than this many times what is thought, there is one under way.
const UNSTEADY: f64 = 2.0;
/// The same where larger batches do more than this many times as many rows in the same time.
const WORTH: f64 = 1.5;
/// Nothing is thought to take longer: sizes without a limit are asked about too, and times are added up.
const LONGEST: f64 = 1e9;
/// How far sizes must lie apart, as a part of their mean, to tell the two parts of a line from each other.
const APART: f64 = 0.05;

#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    flights: u64,
    /// Weighted sums: of ones, rows, squared rows, seconds, rows times seconds.
    sums: [f64; 5],
    /// Seconds for each row, and for a batch at all.
    slope: f64,
    fixed: f64,
    /// The most rows that a batch has had.
    reach: usize,
    /// What a flight may take, as a multiple of what is thought.
    swing: f64,
    surprises: i32,
}

/// How batches are made for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Most rows of a batch: as many as there are where nothing speaks against it, none where the target is out of reach.
    pub(super) rows: usize,
    /// Most batches under way at once.
    pub(super) in_flight: usize,
}

impl Fit {
    /// A batch of so many rows took so long.
    pub(super) fn add(&mut self, rows: usize, time: Duration) {
        let (n, t) = (rows as f64, time.as_secs_f64());
        // The first one pays for what is made once, and counts only until there is another.
        if self.flights == 1 {
            self.sums = [0.0; 5];
            self.slope = 0.0;
        }
        let mut counted = t;
        if self.flights > 1 {
            let thought = self.seconds(n);
            self.surprises = match t {
                _ if t > 2.0 * thought => self.surprises.max(0) + 1,
                _ if t < 0.5 * thought => self.surprises.min(0) - 1,
                _ => 0,
            };
            if self.surprises.abs() >= SURPRISES {
                *self = Self { flights: 1, reach: rows, swing: self.swing, ..Self::default() };
            } else {
                counted = t.min(STALLED * thought);
            }
        }
        let swing = if self.flights == 0 { SWING } else { self.swing };
        self.flights += 1;
        self.reach = self.reach.max(rows);
        self.sums.iter_mut().for_each(|sum| *sum *= MEMORY);
        for (sum, more) in self.sums.iter_mut().zip([1.0, n, n * n, counted, n * counted]) {
            *sum += more;
        }
        self.solve();
        // Against the line with this flight in it: the first ones tell the line, not how it swings.
        let own = (t / self.seconds(n).max(f64::MIN_POSITIVE)).min(WIDEST);
        self.swing = own.max(1.0 + KEPT * (swing - 1.0));
    }

    /// By least squares; where all sizes are alike, the slope stays as it was.
    fn solve(&mut self) {
        let [weight, ..] = self.sums;
        let [_, n, nn, t, nt] = self.sums.map(|sum| sum / weight);
        let (spread, together) = (nn - n * n, nt - n * t);
        if spread > (APART * n).powi(2) {
            self.slope = together / spread;
        }
        self.slope = self.slope.clamp(0.0, t / n.max(1.0));
        self.fixed = (t - self.slope * n).max(0.0);
    }

    fn seconds(&self, rows: f64) -> f64 {
        (self.fixed + self.slope * rows).min(LONGEST)
    }

    /// How long so many rows take, if that is known.
    pub(super) fn time(&self, rows: usize) -> Option<Duration> {
        (self.flights > 0).then(|| Duration::from_secs_f64(self.seconds(rows as f64)))
    }

    /// What a batch takes at all, and each of its rows, if that is known.
    pub(super) fn parts(&self) -> Option<[Duration; 2]> {
        (self.flights > 0).then(|| [self.fixed, self.slope].map(Duration::from_secs_f64))
    }

    /// The most rows that are done within a time; `None` where nothing is known.
    pub(super) fn rows_within(&self, time: Duration) -> Option<usize> {
        (self.flights > 0).then(|| self.rows_in(time.as_secs_f64()))
    }

    fn rows_in(&self, seconds: f64) -> usize {
        if seconds < self.fixed {
            return 0;
        }
        // A cast from infinity is the largest number; what is a whole number may come out a little less.
        ((seconds - self.fixed) / self.slope + 1e-3) as usize
    }

    /// Whether there is an estimate: the first flight pays for what is made once.
    pub(super) fn is_known(&self) -> bool {
        self.flights > 1
    }

    /// What is kept free of a target, because one of the flights that a request sees through may take longer than thought: no more than half of it.
    pub(super) fn margin(&self, rows: usize, target: Duration) -> Duration {
        let margin = Duration::from_secs_f64(((self.swing - 1.0) * self.seconds(rows as f64)).clamp(0.0, LONGEST));
        margin.min(target / 2)
    }

    /// How batches are made for a target, with at most `in_flight` under way at once.
    ///
    /// A request that comes when all are under way sees them through, and then its own. Where a batch may take more than twice what is thought, and where that makes batches so small that much
    /// of the time is lost, there is one under way: what waits for a batch that stalls can still be rejected, what is on the device behind it cannot.
    pub(super) fn plan(&self, target: Duration, in_flight: usize) -> Plan {
        let target = target.as_secs_f64();
        // With the margin: half of the target at most.
        let each = |flights: usize| {
            let flights = flights as f64 + 1.0;
            target / (flights + (self.swing - 1.0).clamp(0.0, flights))
        };
        let rate = |flights: usize| self.rows_in(each(flights)) as f64 / each(flights);
        let one = self.swing > UNSTEADY || rate(1) > WORTH * rate(in_flight);
        let in_flight = if one { 1 } else { in_flight };
        Plan { rows: self.rows_in(each(in_flight)), in_flight }
    }

    /// As many rows as cost as much as the batch itself: where a target is out of reach, little is lost for nothing.
    pub(super) fn balanced(&self) -> usize {
        ((self.fixed / self.slope).round() as usize).max(1)
    }

    /// The most rows that a line can be believed for: it says little about what lies far beyond its points.
    pub(super) fn believable(&self) -> usize {
        self.reach.saturating_mul(2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn line(fixed: u32, slope: u32, rows: usize) -> Duration {
        US * fixed + US * slope * u32::try_from(rows).expect("few")
    }

    fn learned(fixed: u32, slope: u32) -> Fit {
        let mut fit = Fit::default();
        (0..40).for_each(|flight| fit.add(1 + flight * 7 % 100, line(fixed, slope, 1 + flight * 7 % 100)));
        // As after some thousand flights that took what was thought.
        Fit { swing: 1.0, ..fit }
    }

    fn near(time: Option<Duration>, expected: Duration) -> bool {
        time.is_some_and(|time| time.abs_diff(expected) < US)
    }

    #[test]
    fn a_line_is_found_again() {
        let fit = learned(200, 3);
        assert!(near(fit.time(0), 200 * US) && near(fit.time(1000), 3200 * US), "{fit:?}");
        assert_eq!(fit.rows_within(501 * US), Some(100));
        assert_eq!(fit.rows_within(199 * US), Some(0));
        assert_eq!(Fit::default().time(1), None);
    }

    #[test]
    fn sizes_without_a_limit_take_long_and_not_for_ever() {
        let mut fit = Fit::default();
        (1..5).for_each(|rows| fit.add(rows, Duration::from_secs(rows as u64)));
        assert_eq!(fit.time(usize::MAX), Some(Duration::from_secs_f64(LONGEST)));
    }

    #[test]
    fn the_first_flight_is_forgotten_with_the_second() {
        let mut fit = Fit::default();
        fit.add(10, 100_000 * US);
        assert!(near(fit.time(10), 100_000 * US));
        fit.add(10, 10 * US);
        assert!(near(fit.time(10), 10 * US));
    }

    #[test]
    fn sizes_that_are_alike_leave_the_slope_as_it_was() {
        let mut fit = learned(200, 3);
        (0..200).for_each(|_| fit.add(50, line(250, 3, 50)));
        assert!(near(fit.time(100), line(250, 3, 100)), "{fit:?}");
    }

    #[test]
    fn a_device_that_has_changed_is_learned_anew() {
        let mut fit = learned(200, 3);
        (0..5).for_each(|flight| fit.add(10 + flight, line(9_000, 30, 10 + flight)));
        assert!(near(fit.time(100), line(9_000, 30, 100)), "{fit:?}");
    }

    #[test]
    fn as_many_rows_as_let_each_of_the_flights_end_in_time() {
        let fit = learned(100, 2);
        assert_eq!(fit.plan(900 * US, 2), Plan { rows: 100, in_flight: 2 });
        assert_eq!(fit.plan(90_900 * US, 2), Plan { rows: 15_100, in_flight: 2 });
        // Three of 110 µs would have five rows each; two of 165 µs do four times as many in the same time.
        assert_eq!(fit.plan(330 * US, 2), Plan { rows: 32, in_flight: 1 });
        // It has been tried with 99.
        assert_eq!(fit.believable(), 2 * 99);
        // Out of reach: a row's share of the time is half of it.
        assert_eq!((fit.plan(30 * US, 2).rows, fit.balanced()), (0, 50));
        let unknown = Fit::default();
        assert_eq!((unknown.plan(900 * US, 2).rows, unknown.believable()), (usize::MAX, 1));
    }

    #[test]
    fn what_takes_longer_now_and_then_is_allowed_for() {
        let mut fit = learned(100, 2);
        let even = fit.plan(900 * US, 2);
        (0..256).for_each(|flight| fit.add(50, (200 + if flight % 100 == 0 { 90 } else { 0 }) * US));
        let uneven = fit.plan(900 * US, 2);
        assert!(uneven.rows < even.rows && uneven.rows > even.rows / 2, "{even:?} {uneven:?}");
        assert_eq!((even.in_flight, uneven.in_flight), (2, 2));
        // Ten times as long: half of the target is kept free, and the other half is for two flights.
        fit.add(50, 2_000 * US);
        let stalled = fit.plan(900 * US, 2);
        assert!(stalled.in_flight == 1 && (55..=62).contains(&stalled.rows), "{stalled:?}");
        (0..2_000).for_each(|_| fit.add(50, 200 * US));
        assert_eq!(fit.plan(900 * US, 2).in_flight, 2, "that was long ago: {fit:?}");
    }

    #[test]
    fn a_flight_that_stalls_changes_the_margin_and_hardly_the_line() {
        let mut fit = learned(100, 2);
        for flight in 0..256 {
            let rows = 1 + flight * 7 % 100;
            fit.add(rows, line(100, 2, rows) * if flight % 40 == 20 { 50 } else { 1 });
        }
        let time = fit.time(50).expect("known");
        assert!(time > 195 * US && time < 230 * US, "{time:?}");
        assert_eq!(fit.margin(50, 2_000 * US), 1_000 * US, "no more than half of the target");
        assert_eq!(learned(100, 2).margin(50, 2_000 * US), Duration::ZERO);
    }

    #[test]
    fn as_long_as_few_have_been_seen_they_may_take_half_as_long_again() {
        let mut fit = Fit::default();
        fit.add(10, 100 * US);
        assert!(!fit.is_known());
        fit.add(10, 100 * US);
        assert!(fit.is_known() && near(Some(fit.margin(10, 1_000 * US)), 50 * US), "{fit:?}");
    }
}
