//! Whether a device waits a little for callers who have just had their answers: those that ask again at once are then part of the next batch. Without,
//! they split into groups that take turns, with few rows each.
//!
//! Pure. It is learned whether they do come back: where requests come by themselves, waiting for more of them only costs time.

use std::time::Duration;

/// It waits for no longer than this part of what the last batch took, and than this part of `max_wait`.
const OF_SERVICE: u32 = 2;
pub(super) const OF_WAIT: u32 = 4;
/// It may always wait for so long: it takes longer to wake a thread that sleeps.
const LEAST: Duration = Duration::from_micros(10);
/// What one time weighs against those before it.
const WEIGHT: f64 = 0.125;
/// Where they mostly do not come back, it is tried every so many times whether they do now.
const RETRY: u32 = 64;

/// Rows that are to wait before a batch leaves, or the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) rows: usize,
    pub(super) until: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Linger {
    /// Rows that are waited for, and until when.
    awaited: usize,
    until: Duration,
    /// How often they came in time, of late.
    kept: f64,
    /// Times that it could have waited, and did not.
    passed: u32,
}

impl Default for Linger {
    fn default() -> Self {
        Self { awaited: 0, until: Duration::ZERO, kept: 1.0, passed: 0 }
    }
}

impl Linger {
    /// A batch of so many rows is over that took so long; so many more wait, and a full one has `size`.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        service: Duration,
        [rows, waiting, size]: [usize; 3],
        max_wait: Duration,
    ) {
        self.awaited = 0;
        let awaited = size.min(waiting + rows);
        if awaited <= 1 || waiting >= size {
            return;
        }
        self.passed += 1;
        if self.kept >= 0.5 || self.passed >= RETRY {
            let window = (service / OF_SERVICE).max(LEAST).min(max_wait / OF_WAIT);
            (self.awaited, self.until, self.passed) = (awaited, now + window, 0);
        }
    }

    /// Whom a batch still waits for, when so many rows wait.
    pub(super) fn waits(&self, now: Duration, waiting: usize) -> Option<Awaited> {
        let awaited = Awaited { rows: self.awaited, until: self.until };
        (waiting < self.awaited && now < self.until).then_some(awaited)
    }

    /// A batch leaves, when so many rows waited.
    pub(super) fn end(&mut self, waiting: usize) {
        if self.awaited > 0 {
            let came = if waiting >= self.awaited { 1.0 } else { 0.0 };
            self.kept += WEIGHT * (came - self.kept);
            self.awaited = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn callers_are_waited_for_until_they_are_back_or_it_takes_too_long() {
        let mut linger = Linger::default();
        linger.begin(MS, 200 * US, [10, 2, 64], MS);
        assert_eq!(linger.waits(MS, 11), Some(Awaited { rows: 12, until: MS + 100 * US }));
        assert_eq!(linger.waits(MS, 12), None);
        assert_eq!(linger.waits(MS + 100 * US, 0), None);
        // No longer than a part of what a request waits at most.
        linger.begin(MS, 200 * US, [10, 2, 64], 200 * US);
        assert_eq!(linger.waits(MS, 11), Some(Awaited { rows: 12, until: MS + 50 * US }));
        // A full batch waits for nobody.
        linger.begin(MS, 200 * US, [10, 64, 64], MS);
        assert_eq!(linger.waits(MS, 63), None);
    }

    #[test]
    fn a_single_caller_is_not_waited_for_and_several_at_least_as_long_as_a_thread_takes_to_wake() {
        let mut linger = Linger::default();
        linger.begin(MS, 200 * US, [1, 0, 64], MS);
        assert_eq!(linger.waits(MS, 0), None);
        linger.begin(MS, US, [10, 0, 64], MS);
        assert_eq!(linger.waits(MS, 0), Some(Awaited { rows: 10, until: MS + LEAST }));
    }

    #[test]
    fn where_nobody_comes_back_it_is_only_tried_now_and_then() {
        let mut linger = Linger::default();
        let mut waited = |came: usize| {
            linger.begin(MS, 200 * US, [10, 0, 64], MS);
            let waits = linger.waits(MS, 0).is_some();
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
