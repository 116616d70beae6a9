//! The settings of a batcher.

use std::time::Duration;

/// How requests are collected into batches.
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
    /// Maximum rows of a batch. A request with more rows is [split](crate::Job::split), or runs alone.
    pub max_batch_size: usize,
    /// Maximum time that a request waits for others to join it while the worker is busy.
    pub max_wait: Duration,
    /// Maximum queued rows; `None`: four batches. A request is always admitted if nothing is queued.
    pub queue_capacity: Option<usize>,
    /// What happens to a request if the queue is full.
    pub overload: Overload,
    /// Maximum batches in flight per worker. At least 1.
    pub in_flight: usize,
    /// Start a batch at once if a worker is idle, however few requests there are. Callers that were just answered get a
    /// moment to send the next request, at most a quarter of `max_wait`, as long as they do send one.
    pub greedy: bool,
    /// How batches are sized.
    pub sizing: BatchSizing,
}

/// How batches are sized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchSizing {
    /// Always [`max_batch_size`](BatchConfig::max_batch_size).
    #[default]
    Fixed,
    /// The largest size that keeps answers within a target, according to measured batch times; at most
    /// `max_batch_size`.
    ///
    /// With [`Overload::Reject`] a request is admitted only if it is expected to be answered in time: after the batches
    /// in flight, the queued rows and its own batch, with a margin for slow batches. Other requests fail at once with
    /// [`Overloaded`](crate::ErrorKind::Overloaded). A request that has waited too long when its batch starts is
    /// rejected then. Before the first measurement, and if a single row takes too long, one request at a time is
    /// admitted. If batches sometimes take more than twice the expected time, only one is in flight at a time.
    ///
    /// With [`Overload::Wait`] requests wait until the queue has room, and their answers are late. If a single row
    /// takes too long, batches have the size at which rows take half of the time.
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

/// What happens to a request if the queue is full.
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
    /// It fails with [`Overloaded`](crate::ErrorKind::Overloaded). With a [target](BatchSizing::Target), requests that
    /// would be answered too late fail too.
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

    /// For low latency: 256 rows, 1 ms.
    #[must_use]
    pub fn latency() -> Self {
        Self { max_batch_size: 256, max_wait: Duration::from_millis(1), ..Self::default() }
    }

    /// For high throughput: 2,048 rows, 10 ms.
    #[must_use]
    pub fn throughput() -> Self {
        Self { max_batch_size: 2048, max_wait: Duration::from_millis(10), ..Self::default() }
    }

    /// Maximum queued rows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue_capacity.unwrap_or_else(|| self.max_batch_size.saturating_mul(4)).max(1)
    }
}
