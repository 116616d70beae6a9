//! The locks and the clock of this layer, named once so that the concurrency tests can put `shuttle`'s in their place.

use std::time::{Duration, Instant};

pub(super) use std::thread::yield_now;

pub(super) use parking_lot::{Condvar, Mutex};

/// Time since the batcher began.
#[derive(Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// A moment by this clock; what lies before its beginning is its beginning.
    pub(super) fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.0)
    }
}
