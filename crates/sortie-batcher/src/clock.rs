//! The clock of a batcher. The rules take times as arguments; a batcher gets them from here.

use std::time::{Duration, Instant};

/// Time since a batcher was created.
///
/// ```
/// use std::time::{Duration, Instant};
/// use sortie_batcher::Clock;
///
/// let clock = Clock::start();
/// assert!(clock.at(Instant::now() + Duration::from_secs(1)) > clock.now());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since it was started.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// An instant as a time of this clock; zero for instants before its start.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }
}
