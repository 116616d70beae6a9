//! Decides whether a worker waits briefly for callers that were just answered: those that send their next request at
//! once then join the next batch. Otherwise callers split into groups that take turns, with few rows each.
//!
//! Pure. It learns whether callers come back: if requests arrive independently of answers, waiting only costs time.

use std::time::Duration;

/// It waits at most this fraction of the last batch's time, and at most this fraction of `max_wait`.
const PART_OF_SERVICE: u32 = 2;
pub(crate) const PART_OF_MAX_WAIT: u32 = 4;
/// Minimum wait: waking a sleeping thread takes longer.
const MIN_WINDOW: Duration = Duration::from_micros(10);
/// Weight of the newest observation in the average.
const WEIGHT: f64 = 0.125;
/// If callers mostly do not come back, one in this many batches waits for them, to notice a change.
const RETRY_INTERVAL: u32 = 64;

/// A batch starts when this many rows are queued, or at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LingerTarget {
    /// Queued rows to wait for.
    pub rows: usize,
    /// End of the wait.
    pub until: Duration,
}

/// A finished batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedBatch {
    /// Its rows.
    pub rows: usize,
    /// How long it took.
    pub service: Duration,
    /// Rows queued now.
    pub queued: usize,
    /// Rows of a full batch.
    pub capacity: usize,
}

/// Decides for one worker whether to wait for callers.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::linger::{FinishedBatch, Linger};
///
/// let (ms, mut linger) = (Duration::from_millis(1), Linger::default());
/// linger.begin(5 * ms, FinishedBatch { rows: 10, service: ms, queued: 2, capacity: 64 }, 4 * ms);
/// let target = linger.target(5 * ms, 2).expect("ten callers may come back");
/// assert_eq!((target.rows, target.until), (12, 5 * ms + ms / 2));
/// assert_eq!(linger.target(5 * ms, 12), None); // they came back
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Linger {
    /// Rows to wait for, and until when.
    rows: usize,
    until: Duration,
    /// Fraction of waits in which they came in time, as a moving average.
    came_back: f64,
    /// Batches since it last waited.
    passed: u32,
}

impl Default for Linger {
    fn default() -> Self {
        Self { rows: 0, until: Duration::ZERO, came_back: 1.0, passed: 0 }
    }
}

impl Linger {
    /// Starts waiting for the callers of a batch that just finished, if they are likely to come back.
    pub fn begin(&mut self, now: Duration, batch: FinishedBatch, max_wait: Duration) {
        let FinishedBatch { rows, service, queued, capacity } = batch;
        self.rows = 0;
        let awaited = capacity.min(queued + rows);
        if awaited <= 1 || queued >= capacity {
            return;
        }
        self.passed += 1;
        if self.came_back >= 0.5 || self.passed >= RETRY_INTERVAL {
            let window = (service / PART_OF_SERVICE).max(MIN_WINDOW).min(max_wait / PART_OF_MAX_WAIT);
            (self.rows, self.until, self.passed) = (awaited, now + window, 0);
        }
    }

    /// The remaining wait of a batch when `queued` rows are queued.
    #[must_use]
    pub fn target(&self, now: Duration, queued: usize) -> Option<LingerTarget> {
        let target = LingerTarget { rows: self.rows, until: self.until };
        (queued < self.rows && now < self.until).then_some(target)
    }

    /// Ends the wait, and learns nothing from it.
    pub fn stop(&mut self) {
        self.rows = 0;
    }

    /// A batch starts when `queued` rows are queued: learns whether the awaited callers came.
    pub fn end(&mut self, queued: usize) {
        if self.rows > 0 {
            let came = if queued >= self.rows { 1.0 } else { 0.0 };
            self.came_back += WEIGHT * (came - self.came_back);
            self.rows = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    fn batch(rows: usize, queued: usize, capacity: usize, service: Duration) -> FinishedBatch {
        FinishedBatch { rows, service, queued, capacity }
    }

    #[test]
    fn callers_are_waited_for_until_they_are_back_or_it_takes_too_long() {
        let mut linger = Linger::default();
        linger.begin(MS, batch(10, 2, 64, 200 * US), MS);
        assert_eq!(linger.target(MS, 11), Some(LingerTarget { rows: 12, until: MS + 100 * US }));
        assert_eq!(linger.target(MS, 12), None);
        assert_eq!(linger.target(MS + 100 * US, 0), None);
        // At most a fraction of `max_wait`.
        linger.begin(MS, batch(10, 2, 64, 200 * US), 200 * US);
        assert_eq!(linger.target(MS, 11), Some(LingerTarget { rows: 12, until: MS + 50 * US }));
        // A full batch does not wait.
        linger.begin(MS, batch(10, 64, 64, 200 * US), MS);
        assert_eq!(linger.target(MS, 63), None);
    }

    #[test]
    fn a_single_caller_is_not_waited_for_and_several_at_least_as_long_as_a_thread_takes_to_wake() {
        let mut linger = Linger::default();
        linger.begin(MS, batch(1, 0, 64, 200 * US), MS);
        assert_eq!(linger.target(MS, 0), None);
        linger.begin(MS, batch(10, 0, 64, US), MS);
        assert_eq!(linger.target(MS, 0), Some(LingerTarget { rows: 10, until: MS + MIN_WINDOW }));
    }

    #[test]
    fn lingering_is_rarely_tried_if_no_caller_comes_back() {
        let mut linger = Linger::default();
        let mut waited = |came: usize| {
            linger.begin(MS, batch(10, 0, 64, 200 * US), MS);
            let waits = linger.target(MS, 0).is_some();
            linger.end(came);
            waits
        };
        let times = |waited: &mut dyn FnMut(usize) -> bool, came| (0..1000).filter(|_| waited(came)).count();
        let few = times(&mut waited, 3);
        assert!((5..50).contains(&few), "{few}");
        let most = times(&mut waited, 10);
        assert!(most > 500, "{most}");
    }
}
