//! What a batcher has done.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::queue::Reason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A snapshot of what a [`Batcher`](super::Batcher) has done since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct BatchMetrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Rows that wait at the moment.
            pub queued_rows: u64,
            /// Rows of a batch, on average, of those that it may have.
            pub fill: f64,
            /// From a request's arrival to its batch's departure.
            pub wait: Times,
            /// From a batch's departure to its answers.
            pub service: Times,
        }

        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Counts {
            fn snapshot(&self) -> BatchMetrics {
                BatchMetrics { $($name: self.$name.load(Ordering::Relaxed),)* ..BatchMetrics::default() }
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
    /// Requests for which there was no room.
    rejected,
    /// Requests whose deadline passed before they flew.
    expired,
    /// Requests whose callers had gone before they flew.
    canceled,
    /// Batches that failed.
    failed,
    /// Times that a lost device was opened again.
    reopened,
}

/// How long something took.
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

/// The live figures behind [`BatchMetrics`].
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) counts: Counts,
    times: Mutex<[Histogram<u64>; 2]>,
}

impl Figures {
    pub(super) fn new() -> Self {
        // Microseconds up to an hour, to 1 %.
        let histogram = || Histogram::new_with_max(3_600_000_000, 2).unwrap_or_else(|_| unreachable!("valid bounds"));
        Self { counts: Counts::default(), times: Mutex::new([histogram(), histogram()]) }
    }

    /// A batch has left, after its requests have waited so long.
    pub(super) fn left(&self, reason: Reason, rows: usize, waits: impl Iterator<Item = Duration>) {
        let counts = &self.counts;
        counts.batches.fetch_add(1, Ordering::Relaxed);
        counts.rows.fetch_add(rows as u64, Ordering::Relaxed);
        let why = match reason {
            Reason::Full => &counts.full,
            Reason::Waited => &counts.waited,
            Reason::Idle => &counts.idle,
            Reason::Closing => &counts.closing,
        };
        why.fetch_add(1, Ordering::Relaxed);
        let mut times = self.times.lock();
        waits.for_each(|wait| times[0].saturating_record(micros(wait)));
    }

    /// A batch is over.
    pub(super) fn served(&self, time: Duration) {
        self.times.lock()[1].saturating_record(micros(time));
    }

    pub(super) fn snapshot(&self, queued_rows: usize, batch_size: usize) -> BatchMetrics {
        let metrics = self.counts.snapshot();
        let times = self.times.lock();
        let of = |histogram: &Histogram<u64>| Times {
            p50: Duration::from_micros(histogram.value_at_quantile(0.5)),
            p99: Duration::from_micros(histogram.value_at_quantile(0.99)),
            max: Duration::from_micros(histogram.max()),
        };
        BatchMetrics {
            queued_rows: queued_rows as u64,
            fill: metrics.rows as f64 / (metrics.batches.max(1) * batch_size.max(1) as u64) as f64,
            wait: of(&times[0]),
            service: of(&times[1]),
            ..metrics
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
