//! The settings of a batcher.

use std::time::Duration;

/// How requests are put together into batches.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::BatchConfig;
///
/// let config = BatchConfig::default().with_max_batch_size(512);
/// assert_eq!(config.max_wait, Duration::from_millis(5));
/// assert_eq!(config.capacity(), 2048); // four batches
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchConfig {
    /// Most rows of a batch. A request that has more by itself is [split](crate::Job::split), or runs alone.
    pub max_batch_size: usize,
    /// The longest that a request waits for others to join it while the worker has other work.
    pub max_wait: Duration,
    /// Most queued rows; `None`: four batches. A request is always admitted when nothing is queued.
    pub queue_capacity: Option<usize>,
    /// What happens to a request when the queue has no room for it.
    pub overload: Overload,
    /// Most batches that each worker has under way at once. At least 1.
    pub in_flight: usize,
    /// Start a batch at once when a worker has nothing under way, however few requests there are. Callers that have just been answered are given a moment to send the next request, at most a
    /// quarter of `max_wait`, as long as they do send one.
    pub greedy: bool,
    /// What sets the size of batches.
    pub sizing: BatchSizing,
}

/// What sets the size of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchSizing {
    /// It is [`max_batch_size`](BatchConfig::max_batch_size).
    #[default]
    Fixed,
    /// It is the largest size that keeps answers within a time, by how long batches were measured to take; never more than `max_batch_size`.
    ///
    /// With [`Overload::Reject`] a request is admitted only if it is expected to be answered in time, by what is under way, what is queued and what its own batch takes, with a margin for batches that
    /// take longer than expected; the others fail at once with [`Overloaded`](crate::ErrorKind::Overloaded). A request that has waited for too long when its batch starts is rejected then. As long as nothing
    /// was measured, and where one row alone takes too long, one request at a time is admitted. Where batches sometimes take more than twice what is expected, one is under way at a time.
    ///
    /// With [`Overload::Wait`] requests without room wait until there is some, and their answers are late. Where one row alone takes too long, batches have the size at which rows take half of the time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie_batcher::{BatchConfig, BatchSizing, Overload};
    ///
    /// let sizing = BatchSizing::Target { p99: Duration::from_millis(10) };
    /// let config = BatchConfig::throughput().with_sizing(sizing).with_overload(Overload::Reject);
    /// assert_eq!(config.max_batch_size, 2048);
    /// ```
    Target {
        /// The 99th percentile of the time from call to answer.
        p99: Duration,
    },
}

/// What happens to a request when the queue has no room for it.
///
/// ```
/// use sortie_batcher::{BatchConfig, Overload};
///
/// // A service that rejects requests rather than answering late.
/// let config = BatchConfig::latency().with_overload(Overload::Reject).with_queue_capacity(10_000);
/// assert_eq!(config.capacity(), 10_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overload {
    /// It waits until there is room.
    #[default]
    Wait,
    /// It fails with [`Overloaded`](crate::ErrorKind::Overloaded). With a [target](BatchSizing::Target) so does one that would be answered too late.
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
            sizing: BatchSizing::Fixed,
        }
    }
}

/// Setters that take and return the configuration, one per field.
macro_rules! setters {
    ($($with:ident: $field:ident: $type:ty = $value:expr;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $with(mut self, $field: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
}

impl BatchConfig {
    setters! {
        with_max_batch_size: max_batch_size: usize = max_batch_size;
        with_max_wait: max_wait: Duration = max_wait;
        with_queue_capacity: queue_capacity: usize = Some(queue_capacity);
        with_overload: overload: Overload = overload;
        with_in_flight: in_flight: usize = in_flight;
        with_greedy: greedy: bool = greedy;
        with_sizing: sizing: BatchSizing = sizing;
    }

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

    /// Most queued rows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue_capacity.unwrap_or_else(|| self.max_batch_size.saturating_mul(4)).max(1)
    }
}
