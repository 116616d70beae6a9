//! How long batches take on a device, as a line: so much for a batch at all, and so much for each of its rows.
//!
//! Pure. Learned from service times alone, what the device itself takes: end-to-end latencies grow with the queue, and whoever sizes batches by those
//! ends with batches of one row.
//!
//! Invariant: neither part of the line is negative.

use std::{collections::VecDeque, time::Duration};

/// What a flight weighs after one more: some thirty count.
const MEMORY: f64 = 0.97;
/// Flights in a row that took twice or half of what was thought, after which what was known is forgotten: the device is another one now.
const SURPRISES: i32 = 3;
/// Flights whose deviations are kept.
const DEVIATIONS: usize = 128;
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
    /// How much longer than thought the last ones took, in seconds.
    deviations: VecDeque<f64>,
    surprises: i32,
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
        if self.flights > 1 {
            let thought = self.seconds(n);
            self.surprises = match t {
                _ if t > 2.0 * thought => self.surprises.max(0) + 1,
                _ if t < 0.5 * thought => self.surprises.min(0) - 1,
                _ => 0,
            };
            if self.surprises.abs() >= SURPRISES {
                *self = Self { flights: 1, reach: rows, ..Self::default() };
            }
        }
        self.flights += 1;
        self.reach = self.reach.max(rows);
        self.sums.iter_mut().for_each(|sum| *sum *= MEMORY);
        for (sum, more) in self.sums.iter_mut().zip([1.0, n, n * n, t, n * t]) {
            *sum += more;
        }
        self.solve();
        self.deviations.truncate(DEVIATIONS - 1);
        self.deviations.push_front(t - self.seconds(n));
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

    /// How many rows a batch may have so that a request which sees so many flights through, one after the other, has its answer in time; as many as there are
    /// where nothing speaks against it.
    pub(super) fn rows_for(&self, target: Duration, flights: usize) -> usize {
        let target = target.as_secs_f64();
        let each = (target - self.deviation().min(target / 2.0)) / flights.max(1) as f64;
        match self.rows_in(each) {
            // Out of reach: as many as cost as much as the batch itself, so that little is lost for nothing.
            0 => ((self.fixed / self.slope).round() as usize).max(1),
            rows => rows,
        }
    }

    /// The most rows that a line can be believed for: it says little about what lies far beyond its points.
    pub(super) fn believable(&self) -> usize {
        self.reach.saturating_mul(2).max(1)
    }

    /// How much longer than thought all but the fiftieth take, in seconds.
    fn deviation(&self) -> f64 {
        let mut all: Vec<f64> = self.deviations.iter().copied().collect();
        let rank = all.len() / 50;
        if all.is_empty() {
            return 0.0;
        }
        let (_, longest, _) = all.select_nth_unstable_by(rank, |a, b| b.total_cmp(a));
        longest.max(0.0)
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
        fit
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
        assert_eq!(fit.rows_for(900 * US, 3), 100);
        assert_eq!(fit.rows_for(90_900 * US, 3), 15_100);
        // It has been tried with 99.
        assert_eq!(fit.believable(), 2 * 99);
        // Out of reach: a row's share of the time is half of it.
        assert_eq!(fit.rows_for(30 * US, 3), 50);
        assert_eq!((Fit::default().rows_for(900 * US, 3), Fit::default().believable()), (usize::MAX, 1));
    }

    #[test]
    fn what_takes_longer_now_and_then_is_allowed_for() {
        let mut fit = learned(100, 2);
        let even = fit.rows_for(900 * US, 3);
        (0..DEVIATIONS).for_each(|flight| fit.add(50, (200 + if flight % 20 == 0 { 90 } else { 0 }) * US));
        let uneven = fit.rows_for(900 * US, 3);
        assert!(uneven < even && uneven > even / 2, "{even} {uneven}");
    }
}
