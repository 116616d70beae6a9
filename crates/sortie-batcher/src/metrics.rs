//! Metrics of a batcher, as a snapshot and through the `metrics` facade.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hdrhistogram::Histogram;
use metrics::{Counter, Gauge, counter, gauge, histogram};
use parking_lot::Mutex;

use crate::queue::FlushReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A snapshot of the metrics of a [`Batcher`](crate::Batcher), since it was created.
        ///
        /// ```
        /// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
        ///
        /// let double = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 2.0 * x).collect());
        /// let batcher = Batcher::new([()], double, BatchConfig::default().with_max_batch_size(2))?;
        /// batcher.call_blocking(1.0)?;
        /// let metrics = batcher.metrics();
        /// assert_eq!((metrics.requests, metrics.rows, metrics.batches, metrics.idle), (1, 1, 1, 1)); // it started at once
        /// assert_eq!(metrics.fill, 0.5); // of two rows
        /// println!("99 % waited no longer than {:?}", metrics.wait.p99);
        /// # Ok::<(), sortie_batcher::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct BatchMetrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Rows currently queued.
            pub queued_rows: u64,
            /// Requests currently waiting for room in the queue.
            pub blocked_requests: u64,
            /// Current rows of a full batch.
            pub batch_size: u64,
            /// Average rows of a batch as a fraction of a full batch.
            pub fill: f64,
            /// From a request's arrival to the start of its batch.
            pub wait: Percentiles,
            /// From the start of a batch to its answers.
            pub service: Percentiles,
        }

        /// The live counters behind [`BatchMetrics`]. All of them are also published through the `metrics` facade.
        pub(crate) struct LiveMetrics {
            $(pub(crate) $name: Count,)*
            /// Sum of the full sizes of all batches, in rows.
            offered: AtomicU64,
            times: Mutex<[Histogram<u64>; 2]>,
            published: Published,
        }

        impl LiveMetrics {
            /// Metrics of a batcher whose job has this name.
            pub(crate) fn new(job: &str) -> Self {
                // Microseconds up to an hour, with a precision of 1 %.
                let histogram = || Histogram::new_with_max(3_600_000_000, 2).unwrap_or_else(|_| unreachable!("valid bounds"));
                let job = job.to_owned();
                Self {
                    $($name: Count {
                        own: AtomicU64::new(0),
                        published: counter!(concat!("sortie_batcher_", stringify!($name), "_total"), "job" => job.clone()),
                    },)*
                    offered: AtomicU64::new(0),
                    times: Mutex::new([histogram(), histogram()]),
                    published: Published::new(&job),
                }
            }

            fn counts(&self) -> BatchMetrics {
                BatchMetrics { $($name: self.$name.own.load(Ordering::Relaxed),)* ..BatchMetrics::default() }
            }
        }
    };
}

counters! {
    /// Requests admitted.
    requests,
    /// Rows of started batches.
    rows,
    /// Batches started.
    batches,
    /// Batches started because they were full.
    full,
    /// Batches started because a request had waited for `max_wait`.
    waited,
    /// Batches started because the worker was idle.
    idle,
    /// Batches started because the batcher was closing.
    closing,
    /// Requests rejected because the queue was full, or because they could not be answered within the target.
    rejected,
    /// Requests admitted and later rejected, because they could no longer be answered within the target.
    shed,
    /// Requests whose deadline passed before they were started.
    expired,
    /// Requests whose callers had gone before they were started.
    canceled,
    /// Failed batches: with all their requests, or until the failing ones were isolated.
    failed,
    /// Further attempts with parts of failed batches. At most two per halving of a batch and failing request, and at
    /// most half as many as the batch has requests, or 64 if that is more.
    retries,
    /// Requests that failed alone after their batch had failed.
    isolated,
    /// Times that a worker was reset after the job panicked (`sortie`: the job was prepared again).
    prepared,
    /// Times that a worker recovered after a failure (`sortie`: a lost device was opened again).
    reopened,
}

/// Percentiles of times. Microseconds up to an hour, with a precision of 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// The state of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueState {
    pub(crate) queued_rows: usize,
    pub(crate) blocked_requests: usize,
    /// Rows of a full batch.
    pub(crate) batch_size: usize,
}

/// A counter.
pub(crate) struct Count {
    own: AtomicU64,
    published: Counter,
}

impl Count {
    pub(crate) fn add(&self, more: usize) {
        if more > 0 {
            self.own.fetch_add(more as u64, Ordering::Relaxed);
            self.published.increment(more as u64);
        }
    }
}

/// Histograms and gauges of the facade.
struct Published {
    rows: metrics::Histogram,
    wait: metrics::Histogram,
    service: metrics::Histogram,
    queued_rows: Gauge,
    batch_size: Gauge,
}

impl Published {
    fn new(job: &str) -> Self {
        let job = job.to_owned();
        Self {
            rows: histogram!("sortie_batcher_batch_rows", "job" => job.clone()),
            wait: histogram!("sortie_batcher_wait_seconds", "job" => job.clone()),
            service: histogram!("sortie_batcher_service_seconds", "job" => job.clone()),
            queued_rows: gauge!("sortie_batcher_queued_rows", "job" => job.clone()),
            batch_size: gauge!("sortie_batcher_batch_size", "job" => job),
        }
    }
}

impl LiveMetrics {
    /// Records a started batch: its rows, the rows of a full batch, and how long its requests waited.
    pub(crate) fn started(
        &self,
        reason: FlushReason,
        rows: usize,
        capacity: usize,
        waits: impl Iterator<Item = Duration>,
    ) {
        self.offered.fetch_add(capacity as u64, Ordering::Relaxed);
        self.batches.add(1);
        self.rows.add(rows);
        let why = match reason {
            FlushReason::Full => &self.full,
            FlushReason::Waited => &self.waited,
            FlushReason::Idle => &self.idle,
            FlushReason::Closing => &self.closing,
        };
        why.add(1);
        self.published.rows.record(rows as f64);
        let mut times = self.times.lock();
        for wait in waits {
            times[0].saturating_record(micros(wait));
            self.published.wait.record(wait);
        }
    }

    /// Records a finished batch: its time, and the queue after it.
    pub(crate) fn served(&self, time: Duration, queue: QueueState) {
        let QueueState { queued_rows, batch_size, .. } = queue;
        self.times.lock()[1].saturating_record(micros(time));
        self.published.service.record(time);
        self.published.queued_rows.set(queued_rows as f64);
        self.published.batch_size.set(batch_size as f64);
    }

    /// A snapshot, with the current queue.
    pub(crate) fn snapshot(&self, queue: QueueState) -> BatchMetrics {
        let QueueState { queued_rows, blocked_requests, batch_size } = queue;
        let metrics = self.counts();
        let times = self.times.lock();
        let of = |histogram: &Histogram<u64>| Percentiles {
            p50: Duration::from_micros(histogram.value_at_quantile(0.5)),
            p99: Duration::from_micros(histogram.value_at_quantile(0.99)),
            max: Duration::from_micros(histogram.max()),
        };
        BatchMetrics {
            queued_rows: queued_rows as u64,
            blocked_requests: blocked_requests as u64,
            batch_size: batch_size as u64,
            fill: metrics.rows as f64 / self.offered.load(Ordering::Relaxed).max(1) as f64,
            wait: of(&times[0]),
            service: of(&times[1]),
            ..metrics
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
