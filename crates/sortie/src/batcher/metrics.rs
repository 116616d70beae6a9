//! What a batcher has done, as a snapshot and through the `metrics` facade.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hdrhistogram::Histogram;
use metrics::{Counter, Gauge, counter, gauge, histogram};
use parking_lot::Mutex;

use super::queue::Reason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A snapshot of what a [`Batcher`](super::Batcher) has done since it was made.
        ///
        /// ```
        /// use sortie::{BatchConfig, Batcher, Device, Rows};
        ///
        /// # let halves = Rows::<f32, f32>::new([1, 1], "
        /// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
        /// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        /// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        /// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
        /// #     }
        /// # ");
        /// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
        /// batcher.call_blocking(vec![1.0; 512])?;
        /// let metrics = batcher.metrics();
        /// assert_eq!((metrics.requests, metrics.rows, metrics.batches, metrics.idle), (1, 512, 1, 1)); // it flew at once
        /// assert_eq!(metrics.fill, 0.5); // of 1,024 rows
        /// println!("99 % waited no longer than {:?}", metrics.wait.p99);
        /// # Ok::<(), sortie::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct BatchMetrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Rows that wait at the moment.
            pub queued_rows: u64,
            /// Requests that wait for room at the moment.
            pub outside: u64,
            /// Rows of a full batch at the moment.
            pub batch_size: u64,
            /// Rows of a batch, on average, of those that it may have.
            pub fill: f64,
            /// From a request's arrival to its batch's departure.
            pub wait: Times,
            /// From a batch's departure to its answers.
            pub service: Times,
        }

        /// The live figures behind [`BatchMetrics`]. All of them are also published through the `metrics` facade.
        #[derive(Debug)]
        pub(super) struct Figures {
            $(pub(super) $name: Count,)*
            /// Rows that the batches could have had.
            offered: AtomicU64,
            times: Mutex<[Histogram<u64>; 2]>,
            published: Published,
        }

        impl Figures {
            /// Of a batcher of this job, by name.
            pub(super) fn new(job: &str) -> Self {
                // Microseconds up to an hour, to 1 %.
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
    /// Requests that were let in.
    requests,
    /// Rows that have flown.
    rows,
    /// Batches that have flown.
    batches,
    /// Batches that flew because they were full.
    full,
    /// Batches that flew because a request had waited long enough.
    waited,
    /// Batches that flew because nothing was under way.
    idle,
    /// Batches that flew because the batcher was closing.
    closing,
    /// Requests for which there was no room, or that could not be answered within the target.
    rejected,
    /// Requests that were let in, waited, and were then rejected because they could no longer be answered within the target.
    shed,
    /// Requests whose deadline passed before they flew.
    expired,
    /// Requests whose callers had gone before they flew.
    canceled,
    /// Batches that failed: with all their requests, or until those that fail them were isolated.
    failed,
    /// Further attempts with parts of failed batches, each at most one submission. At most two for each halving of a batch and each request that fails it, and at most half as many as
    /// the batch has requests, or 64.
    retries,
    /// Requests that failed alone after their batch had failed.
    isolated,
    /// Times that the job was prepared again because it had panicked.
    prepared,
    /// Times that a lost device was opened again.
    reopened,
}

/// How long something took.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, Rows};
///
/// # let halves = Rows::<f32, f32>::new([1, 1], "
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
/// #     }
/// # ");
/// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
/// batcher.call_blocking(vec![1.0, 2.0])?;
/// let service = batcher.metrics().service;
/// println!("half within {:?}, 99 % within {:?}", service.p50, service.p99);
/// assert!(service.p50 <= service.p99 && service.p99 <= service.max);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// Half of them took no longer.
    pub p50: Duration,
    /// Ninety-nine of a hundred took no longer.
    pub p99: Duration,
    /// None took longer.
    pub max: Duration,
}

/// Something that is counted.
#[derive(Debug)]
pub(super) struct Count {
    own: AtomicU64,
    published: Counter,
}

impl Count {
    pub(super) fn add(&self, more: usize) {
        if more > 0 {
            self.own.fetch_add(more as u64, Ordering::Relaxed);
            self.published.increment(more as u64);
        }
    }
}

/// What is not counted but measured, for the facade.
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

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").finish_non_exhaustive()
    }
}

impl Figures {
    /// A batch of so many rows, of those that it could have had, has left, after its requests have waited so long.
    pub(super) fn left(&self, reason: Reason, [rows, size]: [usize; 2], waits: impl Iterator<Item = Duration>) {
        self.offered.fetch_add(size as u64, Ordering::Relaxed);
        self.batches.add(1);
        self.rows.add(rows);
        let why = match reason {
            Reason::Full => &self.full,
            Reason::Waited => &self.waited,
            Reason::Idle => &self.idle,
            Reason::Closing => &self.closing,
        };
        why.add(1);
        self.published.rows.record(rows as f64);
        let mut times = self.times.lock();
        for wait in waits {
            times[0].saturating_record(micros(wait));
            self.published.wait.record(wait);
        }
    }

    /// A batch is over; so many rows wait, and so many make a full batch.
    pub(super) fn served(&self, time: Duration, [queued_rows, batch_size]: [usize; 2]) {
        self.times.lock()[1].saturating_record(micros(time));
        self.published.service.record(time);
        self.published.queued_rows.set(queued_rows as f64);
        self.published.batch_size.set(batch_size as f64);
    }

    /// With so many rows and requests inside and outside, and so many rows in a full batch.
    pub(super) fn snapshot(&self, queued_rows: usize, outside: usize, batch_size: usize) -> BatchMetrics {
        let metrics = self.counts();
        let times = self.times.lock();
        let of = |histogram: &Histogram<u64>| Times {
            p50: Duration::from_micros(histogram.value_at_quantile(0.5)),
            p99: Duration::from_micros(histogram.value_at_quantile(0.99)),
            max: Duration::from_micros(histogram.max()),
        };
        BatchMetrics {
            queued_rows: queued_rows as u64,
            outside: outside as u64,
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
