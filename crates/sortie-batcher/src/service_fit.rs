//! How long batches take a worker, as a line: a fixed time for a batch, and a time for each of its rows.
//!
//! Pure. It is learned from service times alone, what the worker itself takes: end-to-end latencies grow with the queue, and sizing batches by those ends with batches of one row.
//!
//! Invariant: neither part of the line is negative.

use std::time::Duration;

/// Weight of a batch after one more: about thirty count.
const DECAY: f64 = 0.97;
/// Batches in a row that took twice or half of what was expected, after which the line is learned anew: the worker has changed.
const MAX_SURPRISES: i32 = 3;
/// What a batch may take at first, as a multiple of what is expected; the most that is allowed for; and what is kept of the excess after one more batch. The longest of some hundred batches is allowed
/// for, because a request sees up to three through, and one of a hundred requests may be late.
const FIRST_SWING: f64 = 1.5;
const MAX_SWING: f64 = 10.0;
const SWING_DECAY: f64 = 0.998;
/// A single batch that took more than this many times what was expected counts as if it had taken that many: a thread that was not scheduled for a while says nothing about the worker.
const MAX_COUNTED: f64 = 2.0;
/// Where a batch may take more than this many times what is expected, there is one under way.
const UNSTEADY_SWING: f64 = 2.0;
/// The same where larger batches do more than this many times as many rows in the same time.
const WORTHWHILE_GAIN: f64 = 1.5;
/// Nothing is expected to take longer, in seconds: sizes without a limit are asked about too, and times are added up.
const MAX_SECONDS: f64 = 1e9;
/// How far apart sizes must be, as a part of their mean, to tell the two parts of a line from each other.
const MIN_SPREAD: f64 = 0.05;

/// What batches take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTime {
    /// What a batch takes, however few rows it has.
    pub fixed: Duration,
    /// What each of its rows takes.
    pub per_row: Duration,
}

/// The line through what the batches of one worker took.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::service_fit::ServiceFit;
///
/// let (us, mut fit) = (Duration::from_micros(1), ServiceFit::default());
/// for rows in [10, 20, 40, 80] {
///     fit.add(rows, 100 * us + 2 * us * rows as u32);
/// }
/// let time = fit.time(200).expect("measured");
/// assert!(time.abs_diff(500 * us) < us);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServiceFit {
    batches: u64,
    /// Weighted sums: of ones, rows, squared rows, seconds, rows times seconds.
    sums: [f64; 5],
    /// Seconds for each row, and for a batch.
    slope: f64,
    fixed: f64,
    /// The most rows that a batch has had.
    max_rows: usize,
    /// What a batch may take, as a multiple of what is expected.
    swing: f64,
    surprises: i32,
}

/// How batches are made for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Most rows of a batch: `usize::MAX` where nothing limits them, 0 where the target is out of reach.
    pub rows: usize,
    /// Most batches under way at once.
    pub in_flight: usize,
}

impl ServiceFit {
    /// Learns that a batch of `rows` rows took `time`.
    pub fn add(&mut self, rows: usize, time: Duration) {
        let (n, t) = (rows as f64, time.as_secs_f64());
        // The first one pays for what is made once, and counts only until there is another.
        if self.batches == 1 {
            self.sums = [0.0; 5];
            self.slope = 0.0;
        }
        let mut counted = t;
        if self.batches > 1 {
            let expected = self.seconds(n);
            self.surprises = match t {
                _ if t > 2.0 * expected => self.surprises.max(0) + 1,
                _ if t < 0.5 * expected => self.surprises.min(0) - 1,
                _ => 0,
            };
            if self.surprises.abs() >= MAX_SURPRISES {
                *self = Self { batches: 1, max_rows: rows, swing: self.swing, ..Self::default() };
            } else {
                counted = t.min(MAX_COUNTED * expected);
            }
        }
        let swing = if self.batches == 0 { FIRST_SWING } else { self.swing };
        self.batches += 1;
        self.max_rows = self.max_rows.max(rows);
        self.sums.iter_mut().for_each(|sum| *sum *= DECAY);
        for (sum, more) in self.sums.iter_mut().zip([1.0, n, n * n, counted, n * counted]) {
            *sum += more;
        }
        self.solve();
        // Against the line with this batch in it: the first ones tell the line, not how it swings.
        let own = (t / self.seconds(n).max(f64::MIN_POSITIVE)).min(MAX_SWING);
        self.swing = own.max(1.0 + SWING_DECAY * (swing - 1.0));
    }

    /// By least squares; where all sizes are alike, the slope stays as it was.
    fn solve(&mut self) {
        let [weight, ..] = self.sums;
        let [_, n, nn, t, nt] = self.sums.map(|sum| sum / weight);
        let (spread, together) = (nn - n * n, nt - n * t);
        if spread > (MIN_SPREAD * n).powi(2) {
            self.slope = together / spread;
        }
        self.slope = self.slope.clamp(0.0, t / n.max(1.0));
        self.fixed = (t - self.slope * n).max(0.0);
    }

    fn seconds(&self, rows: f64) -> f64 {
        (self.fixed + self.slope * rows).min(MAX_SECONDS)
    }

    /// How long `rows` rows take; `None` before the first batch.
    #[must_use]
    pub fn time(&self, rows: usize) -> Option<Duration> {
        (self.batches > 0).then(|| Duration::from_secs_f64(self.seconds(rows as f64)))
    }

    /// The two parts of the line; `None` before the first batch.
    #[must_use]
    pub fn service_time(&self) -> Option<ServiceTime> {
        let [fixed, per_row] = [self.fixed, self.slope].map(Duration::from_secs_f64);
        (self.batches > 0).then_some(ServiceTime { fixed, per_row })
    }

    /// The most rows that are done within a time; `None` before the first batch.
    #[must_use]
    pub fn rows_within(&self, time: Duration) -> Option<usize> {
        (self.batches > 0).then(|| self.rows_in(time.as_secs_f64()))
    }

    fn rows_in(&self, seconds: f64) -> usize {
        if seconds < self.fixed {
            return 0;
        }
        // A cast from infinity is the largest number; a whole number may come out a little less.
        ((seconds - self.fixed) / self.slope + 1e-3) as usize
    }

    /// Whether there is an estimate. The first batch pays for what is made once, so it takes two.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.batches > 1
    }

    /// What is kept free of a target, because one of the batches that a request sees through may take longer than expected: at most half of the target.
    #[must_use]
    pub fn margin(&self, rows: usize, target: Duration) -> Duration {
        let margin = Duration::from_secs_f64(((self.swing - 1.0) * self.seconds(rows as f64)).clamp(0.0, MAX_SECONDS));
        margin.min(target / 2)
    }

    /// How batches are made for a target, with at most `in_flight` under way at once.
    ///
    /// A request that arrives when all are under way sees them through, and then its own. Where a batch may take more than twice what is expected, and where that makes batches so small that much
    /// of the time is lost, there is one under way: what waits for a batch that stalls can still be rejected, what was started behind it cannot.
    #[must_use]
    pub fn plan(&self, target: Duration, in_flight: usize) -> BatchPlan {
        let target = target.as_secs_f64();
        // With the margin: at most half of the target.
        let each = |batches: usize| {
            let batches = batches as f64 + 1.0;
            target / (batches + (self.swing - 1.0).clamp(0.0, batches))
        };
        let rate = |batches: usize| self.rows_in(each(batches)) as f64 / each(batches);
        let one = self.swing > UNSTEADY_SWING || rate(1) > WORTHWHILE_GAIN * rate(in_flight);
        let in_flight = if one { 1 } else { in_flight };
        BatchPlan { rows: self.rows_in(each(in_flight)), in_flight }
    }

    /// The rows that take as long as the fixed part of a batch: where a target is out of reach, little is lost with these.
    #[must_use]
    pub fn balanced_rows(&self) -> usize {
        ((self.fixed / self.slope).round() as usize).max(1)
    }

    /// The most rows for which the line is trusted: it says little about sizes far beyond those that were measured.
    #[must_use]
    pub fn trusted_rows(&self) -> usize {
        self.max_rows.saturating_mul(2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn line(fixed: u32, slope: u32, rows: usize) -> Duration {
        US * fixed + US * slope * u32::try_from(rows).expect("few")
    }

    fn learned(fixed: u32, slope: u32) -> ServiceFit {
        let mut fit = ServiceFit::default();
        (0..40).for_each(|batch| fit.add(1 + batch * 7 % 100, line(fixed, slope, 1 + batch * 7 % 100)));
        // As after some thousand batchs that took what was thought.
        ServiceFit { swing: 1.0, ..fit }
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
        assert_eq!(ServiceFit::default().time(1), None);
    }

    #[test]
    fn sizes_without_a_limit_take_long_and_not_for_ever() {
        let mut fit = ServiceFit::default();
        (1..5).for_each(|rows| fit.add(rows, Duration::from_secs(rows as u64)));
        assert_eq!(fit.time(usize::MAX), Some(Duration::from_secs_f64(MAX_SECONDS)));
    }

    #[test]
    fn the_first_batch_is_forgotten_with_the_second() {
        let mut fit = ServiceFit::default();
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
        (0..5).for_each(|batch| fit.add(10 + batch, line(9_000, 30, 10 + batch)));
        assert!(near(fit.time(100), line(9_000, 30, 100)), "{fit:?}");
    }

    #[test]
    fn as_many_rows_as_let_each_of_the_batchs_end_in_time() {
        let fit = learned(100, 2);
        assert_eq!(fit.plan(900 * US, 2), BatchPlan { rows: 100, in_flight: 2 });
        assert_eq!(fit.plan(90_900 * US, 2), BatchPlan { rows: 15_100, in_flight: 2 });
        // Three of 110 µs would have five rows each; two of 165 µs do four times as many in the same time.
        assert_eq!(fit.plan(330 * US, 2), BatchPlan { rows: 32, in_flight: 1 });
        // It has been tried with 99.
        assert_eq!(fit.trusted_rows(), 2 * 99);
        // Out of reach: a row's share of the time is half of it.
        assert_eq!((fit.plan(30 * US, 2).rows, fit.balanced_rows()), (0, 50));
        let unknown = ServiceFit::default();
        assert_eq!((unknown.plan(900 * US, 2).rows, unknown.trusted_rows()), (usize::MAX, 1));
    }

    #[test]
    fn what_takes_longer_now_and_then_is_allowed_for() {
        let mut fit = learned(100, 2);
        let even = fit.plan(900 * US, 2);
        (0..256).for_each(|batch| fit.add(50, (200 + if batch % 100 == 0 { 90 } else { 0 }) * US));
        let uneven = fit.plan(900 * US, 2);
        assert!(uneven.rows < even.rows && uneven.rows > even.rows / 2, "{even:?} {uneven:?}");
        assert_eq!((even.in_flight, uneven.in_flight), (2, 2));
        // Ten times as long: half of the target is kept free, and the other half is for two batchs.
        fit.add(50, 2_000 * US);
        let stalled = fit.plan(900 * US, 2);
        assert!(stalled.in_flight == 1 && (55..=62).contains(&stalled.rows), "{stalled:?}");
        (0..2_000).for_each(|_| fit.add(50, 200 * US));
        assert_eq!(fit.plan(900 * US, 2).in_flight, 2, "that was long ago: {fit:?}");
    }

    #[test]
    fn a_batch_that_stalls_changes_the_margin_and_hardly_the_line() {
        let mut fit = learned(100, 2);
        for batch in 0..256 {
            let rows = 1 + batch * 7 % 100;
            fit.add(rows, line(100, 2, rows) * if batch % 40 == 20 { 50 } else { 1 });
        }
        let time = fit.time(50).expect("known");
        assert!(time > 195 * US && time < 230 * US, "{time:?}");
        assert_eq!(fit.margin(50, 2_000 * US), 1_000 * US, "no more than half of the target");
        assert_eq!(learned(100, 2).margin(50, 2_000 * US), Duration::ZERO);
    }

    #[test]
    fn as_long_as_few_have_been_seen_they_may_take_half_as_long_again() {
        let mut fit = ServiceFit::default();
        fit.add(10, 100 * US);
        assert!(!fit.is_known());
        fit.add(10, 100 * US);
        assert!(fit.is_known() && near(Some(fit.margin(10, 1_000 * US)), 50 * US), "{fit:?}");
    }
}
