//! Decides whether a caller is alone, so that it may run its own batch, and when such a caller lets others go first.
//!
//! Pure. Callers that run their batches one by one never meet in the queue, so a caller that runs its own keeps others
//! from joining it. Two rules prevent this: where requests have met, a caller is alone only after some that met none;
//! and a task that has run its batches for a while lets the executor's other tasks run before the next one.

use std::time::Duration;

/// After requests have met, this many in a row must find the batcher idle before a caller counts as alone.
const ARRIVALS: u32 = 16;
/// A task runs its batches for this long before it lets others go first. Executors are used to polls of this length.
const RUN: Duration = Duration::from_micros(100);
/// After a pause of this length the others have had their turn.
const PAUSE: Duration = Duration::from_micros(50);

/// When a caller runs its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerTurn {
    /// At once.
    Now,
    /// When it is polled again, after the executor's other tasks.
    Next,
}

/// Decides for the callers of a batcher.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::lone::{CallerTurn, Lone};
///
/// let (us, mut lone) = (Duration::from_micros(1), Lone::default());
/// lone.arrived(true);
/// assert!(lone.is_alone());
/// assert_eq!(lone.turn(1000 * us), CallerTurn::Now);
/// lone.finished(1010 * us);
/// lone.arrived(false); // another request was there
/// assert!(!lone.is_alone());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lone {
    /// Arrivals in a row that found the batcher idle.
    arrivals: u32,
    /// When a caller began to run batches without a turn of others.
    since: Duration,
    /// When the last of them was finished.
    finished: Duration,
}

impl Default for Lone {
    fn default() -> Self {
        Self { arrivals: ARRIVALS, since: Duration::ZERO, finished: Duration::ZERO }
    }
}

impl Lone {
    /// A request has arrived. `idle`: nothing was queued or in flight.
    pub fn arrived(&mut self, idle: bool) {
        self.arrivals = if idle { self.arrivals.saturating_add(1) } else { 0 };
    }

    /// Whether requests have not met lately.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.arrivals >= ARRIVALS
    }

    /// When a lone task of an executor runs the batch of a request that has just arrived.
    pub fn turn(&mut self, now: Duration) -> CallerTurn {
        if now.saturating_sub(self.finished) > PAUSE {
            self.since = now;
        }
        if now.saturating_sub(self.since) <= RUN {
            return CallerTurn::Now;
        }
        self.since = now;
        CallerTurn::Next
    }

    /// A caller has finished a batch.
    pub fn finished(&mut self, now: Duration) {
        self.finished = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn a_caller_is_alone_until_requests_meet_and_again_after_some_that_met_none() {
        let mut lone = Lone::default();
        lone.arrived(true);
        assert!(lone.is_alone());
        lone.arrived(false);
        for _ in 1..ARRIVALS {
            lone.arrived(true);
            assert!(!lone.is_alone());
        }
        lone.arrived(true);
        assert!(lone.is_alone());
    }

    #[test]
    fn a_task_that_keeps_sending_lets_others_go_first_now_and_then() {
        let mut lone = Lone::default();
        let mut turns = Vec::new();
        for request in 0..1000 {
            let now = (1000 + request) * US;
            lone.arrived(true);
            turns.push(lone.turn(now));
            lone.finished(now);
        }
        let yields = turns.iter().filter(|turn| **turn == CallerTurn::Next).count();
        assert_eq!((turns[0], yields), (CallerTurn::Now, 9));
    }

    #[test]
    fn a_task_that_pauses_between_requests_need_not_wait() {
        let mut lone = Lone::default();
        for request in 1..100 {
            lone.arrived(true);
            assert_eq!(lone.turn(request * 100 * US), CallerTurn::Now);
            lone.finished((request * 100 + 40) * US);
        }
    }
}
