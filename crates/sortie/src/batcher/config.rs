//! The limits of a batcher.

use std::time::Duration;

/// How requests are put together into batches.
///
/// ```
/// use std::time::Duration;
/// use sortie::BatchConfig;
///
/// let config = BatchConfig { max_batch_size: 512, ..BatchConfig::default() };
/// assert_eq!(config.max_wait, Duration::from_millis(5));
/// assert_eq!(config.capacity(), 2048); // four batches
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// Most rows of a batch. A request that has more by itself flies alone.
    pub max_batch_size: usize,
    /// The longest that a request waits for others to join it while the device has other work.
    pub max_wait: Duration,
    /// Most rows that wait; `None`: four batches. A request is always let in when nothing waits.
    pub queue_capacity: Option<usize>,
    /// What becomes of a request when there is no room.
    pub overload: Overload,
    /// Most batches under way at once. At least 1.
    pub in_flight: usize,
    /// Fly at once when nothing is under way, however few requests there are.
    pub greedy: bool,
}

/// What becomes of a request for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overload {
    /// It waits until there is.
    #[default]
    Wait,
    /// It fails with [`Overloaded`](crate::ErrorKind::Overloaded).
    Reject,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            max_batch_size: 1024,
            max_wait: Duration::from_millis(5),
            queue_capacity: None,
            overload: Overload::Wait,
            in_flight: 2,
            greedy: true,
        }
    }
}

impl BatchConfig {
    /// For answers that must come soon: 256 rows, 1 ms.
    #[must_use]
    pub fn latency() -> Self {
        Self { max_batch_size: 256, max_wait: Duration::from_millis(1), ..Self::default() }
    }

    /// For as many answers as possible: 2,048 rows, 10 ms.
    #[must_use]
    pub fn throughput() -> Self {
        Self { max_batch_size: 2048, max_wait: Duration::from_millis(10), ..Self::default() }
    }

    /// Most rows that wait.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue_capacity.unwrap_or_else(|| self.max_batch_size.saturating_mul(4)).max(1)
    }
}
