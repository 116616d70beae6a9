//! A linear model of a worker's batch times: a fixed time per batch, and a time per row.
//!
//! Pure. It is fitted to service times only, the time on the worker: end-to-end latencies grow with the queue, and
//! sizing batches by those ends with batches of one row.
//!
//! Invariant: neither part of the line is negative.

use std::time::Duration;

/// Decay of a batch's weight per further batch: about thirty count.
const DECAY: f64 = 0.97;
/// Number of consecutive batches that took twice or half of the expected time, after which the fit starts again: the
/// worker has changed.
const MAX_SURPRISES: i32 = 3;
/// Initial factor by which a batch may exceed its expected time; the maximum factor; and the decay of the excess per
/// batch. The slowest of some hundred batches is allowed for, because a request waits for up to three, and one of a
/// hundred requests may be late.
const FIRST_SWING: f64 = 1.5;
const MAX_SWING: f64 = 10.0;
const SWING_DECAY: f64 = 0.998;
/// A single batch that took more than this many times the expected time counts as if it had taken that many: a thread
/// that was not scheduled for a while says nothing about the worker.
const MAX_COUNTED: f64 = 2.0;
/// If a batch may exceed its expected time by more than this factor, only one is in flight.
const UNSTEADY_SWING: f64 = 2.0;
/// The same if larger batches do more than this many times as many rows in the same time.
const WORTHWHILE_GAIN: f64 = 1.5;
/// Upper bound of expected times, in seconds, because sizes may be unlimited and times are added up.
const MAX_SECONDS: f64 = 1e9;
/// Minimum spread of the sizes, as a fraction of their mean, to separate the two parts of the line.
const MIN_SPREAD: f64 = 0.05;

/// The time of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTime {
    /// Time of a batch, regardless of its rows.
    pub fixed: Duration,
    /// Time of each row.
    pub per_row: Duration,
}

/// A linear fit of the batch times of one worker.
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
    /// Seconds per row, and per batch.
    slope: f64,
    fixed: f64,
    /// Rows of the largest batch.
    max_rows: usize,
    /// Factor by which a batch may exceed its expected time.
    swing: f64,
    surprises: i32,
}

/// Batch size and depth for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Maximum rows of a batch: `usize::MAX` if unlimited, 0 if the target cannot be met.
    pub rows: usize,
    /// Maximum batches in flight.
    pub in_flight: usize,
}

impl ServiceFit {
    /// Adds the measured time of a batch of `rows` rows.
    pub fn add(&mut self, rows: usize, time: Duration) {
        let (n, t) = (rows as f64, time.as_secs_f64());
        // The first batch includes one-time setup, and counts only until the second.
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
        // Relative to the line that includes this batch: the first batches determine the line, not its variation.
        let own = (t / self.seconds(n).max(f64::MIN_POSITIVE)).min(MAX_SWING);
        self.swing = own.max(1.0 + SWING_DECAY * (swing - 1.0));
    }

    /// Least squares; if all sizes are equal, the slope stays as it was.
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

    /// Expected time of `rows` rows; `None` before the first batch.
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

    /// Maximum rows within a time; `None` before the first batch.
    #[must_use]
    pub fn rows_within(&self, time: Duration) -> Option<usize> {
        (self.batches > 0).then(|| self.rows_in(time.as_secs_f64()))
    }

    fn rows_in(&self, seconds: f64) -> usize {
        if seconds < self.fixed {
            return 0;
        }
        // Casting infinity saturates; the tolerance avoids rounding a whole number down.
        ((seconds - self.fixed) / self.slope + 1e-3) as usize
    }

    /// Whether there is an estimate. The first batch includes one-time setup, so it takes two.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.batches > 1
    }

    /// The margin kept free of a target, because one of the batches that a request waits for may be slow: at most half
    /// of the target.
    #[must_use]
    pub fn margin(&self, rows: usize, target: Duration) -> Duration {
        let margin = Duration::from_secs_f64(((self.swing - 1.0) * self.seconds(rows as f64)).clamp(0.0, MAX_SECONDS));
        margin.min(target / 2)
    }

    /// Sizes batches for a target, with at most `in_flight` in flight.
    ///
    /// A request that arrives when all are in flight waits for them, and then for its own batch. Only one batch is in
    /// flight if a batch may take more than twice its expected time, or if more would make batches so small that much
    /// of the time is lost: requests that wait for a stalled batch can still be rejected, those already submitted after
    /// it cannot.
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

    /// The rows that take as long as the fixed part of a batch: an efficient size if the target cannot be met.
    #[must_use]
    pub fn balanced_rows(&self) -> usize {
        ((self.fixed / self.slope).round() as usize).max(1)
    }

    /// Maximum rows for which the line is trusted: it says little about sizes far beyond those measured.
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
        // As after some thousand batches with the expected time.
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
    fn as_many_rows_as_let_each_batch_end_in_time() {
        let fit = learned(100, 2);
        assert_eq!(fit.plan(900 * US, 2), BatchPlan { rows: 100, in_flight: 2 });
        assert_eq!(fit.plan(90_900 * US, 2), BatchPlan { rows: 15_100, in_flight: 2 });
        // Three of 110 µs would have five rows each; two of 165 µs do four times as many in the same time.
        assert_eq!(fit.plan(330 * US, 2), BatchPlan { rows: 32, in_flight: 1 });
        // The largest batch had 99 rows.
        assert_eq!(fit.trusted_rows(), 2 * 99);
        // The target cannot be met: rows take half of the time.
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
        // Ten times as long: half of the target is kept free, and the other half is for two batches.
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
