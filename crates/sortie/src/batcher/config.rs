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
    /// Most rows of a batch. A request that has more by itself is [cut](crate::Job::split), or flies alone.
    pub max_batch_size: usize,
    /// The longest that a request waits for others to join it while the device has other work.
    pub max_wait: Duration,
    /// Most rows that wait; `None`: four batches. A request is always let in when nothing waits.
    pub queue_capacity: Option<usize>,
    /// What becomes of a request when there is no room.
    pub overload: Overload,
    /// Most batches under way at once. At least 1.
    pub in_flight: usize,
    /// Fly at once when nothing is under way, however few requests there are. Callers who have just had their answers are given a moment to ask again, at most a
    /// quarter of `max_wait`, as long as they do.
    pub greedy: bool,
    /// Who sets the size of batches.
    pub tuning: Tuning,
}

/// Who sets the size of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tuning {
    /// It is [`max_batch_size`](BatchConfig::max_batch_size).
    #[default]
    Fixed,
    /// It is as large as keeps answers within a time, by how long batches are seen to take; never more than `max_batch_size`.
    ///
    /// With [`Overload::Reject`] a request is let in only if it can be answered in time, by what is under way, what waits and what its own batch takes, with a margin for batches that take longer than
    /// thought; the others fail at once with [`Overloaded`](crate::ErrorKind::Overloaded). A request that has waited for too long by the time its batch leaves is rejected then. As long as nothing is known
    /// about how long batches take, and where one row alone takes too long, one request at a time is let in. Where batches sometimes take more than twice what is thought, one is under way at a time.
    ///
    /// With [`Overload::Wait`] those who find no room wait outside, and their answers are late. Where one row alone takes too long, batches are as large as makes a row's own share of the time half of it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie::{BatchConfig, Overload, Tuning};
    ///
    /// let tuning = Tuning::Target { p99: Duration::from_millis(10) };
    /// let config = BatchConfig { tuning, overload: Overload::Reject, ..BatchConfig::throughput() };
    /// assert_eq!(config.max_batch_size, 2048);
    /// ```
    Target {
        /// Ninety-nine of a hundred answers are to come within this.
        p99: Duration,
    },
}

/// What becomes of a request for which there is no room.
///
/// ```
/// use sortie::{BatchConfig, Overload};
///
/// // A service that would rather say no than be late.
/// let config = BatchConfig { overload: Overload::Reject, queue_capacity: Some(10_000), ..BatchConfig::latency() };
/// assert_eq!(config.capacity(), 10_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overload {
    /// It waits until there is.
    #[default]
    Wait,
    /// It fails with [`Overloaded`](crate::ErrorKind::Overloaded). With a [target](Tuning::Target) so does one that would be answered too late.
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
            tuning: Tuning::Fixed,
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
