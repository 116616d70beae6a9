//! Counters and gauges of a device: as a snapshot, and through the `metrics` facade.
//!
//! Tests use counters to state costs exactly ("1,000 ops, one submission, one pass") without a clock. Counters are
//! atomics, added to at most once per batch, submission or buffer. The facade is updated when a batch has completed, so
//! that recording an op costs nothing.

mod published;
mod table;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use smallvec::SmallVec;

use self::published::Published;
use crate::policy::SubmitPolicy;

/// Name and description of a figure of [`Metrics`].
#[derive(Debug)]
struct MetricInfo {
    name: &'static str,
    /// Its name on the facade.
    published: &'static str,
    about: &'static str,
    gauge: bool,
}

/// Figures that changed: index, published value, current value. A batch changes about ten.
type Changes = SmallVec<[(usize, u64, u64); 16]>;

#[inline(always)]
#[expect(clippy::inline_always, reason = "a call for each figure would cost more than all else")]
fn look(live: &AtomicU64, told: &mut u64, figure: usize, changes: &mut Changes) {
    let now = live.load(Ordering::Relaxed);
    if now != *told {
        changes.push((figure, std::mem::replace(told, now), now));
    }
}

macro_rules! figures {
    (
        counters { $($(#[doc = $counts:literal])+ $counter:ident,)* }
        gauges { $($(#[doc = $shows:literal])+ $gauge:ident,)* }
    ) => {
        /// A snapshot of a device's counters, since it was opened, and of its gauges.
        ///
        /// Counters only grow. The difference of two snapshots counts the events between them. Gauges (`in_flight` and
        /// the figures of held bytes) are current values; a difference keeps those of the later snapshot.
        ///
        /// All figures are also published through the [`metrics`](https://docs.rs/metrics) facade, with the label
        /// `device` (the device's name): counters as `sortie_device_<field>_total`, gauges as `sortie_device_<field>`.
        /// A recorder sees devices that are opened after it was installed. It is updated each time a batch completes,
        /// before callers that wait for the batch are woken, so a recorder must not wait for the device. Devices of the
        /// same name are summed. When a device closes, its share of the gauges is subtracted.
        ///
        /// ```
        /// let device = sortie::Device::cpu()?;
        /// let x = device.upload(&[1_u32, 2, 3])?;
        /// let before = device.metrics();
        /// let batch = device.batch();
        /// batch.fill(x.slice(..1), 7);
        /// batch.copy(x.slice(..1), x.slice(1..2));
        /// batch.submit()?;
        /// let done = device.metrics() - before;
        /// assert_eq!((done.batches, done.submissions, done.dispatches, done.transfers, done.barriers), (1, 1, 1, 1, 1));
        /// assert_eq!((done.in_flight, done.pool_bytes_live, done.pool_bytes_wasted), (0, 256, 256 - 12));
        /// println!("{done}"); // a table
        /// # Ok::<(), sortie::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            /// The submit policy of the device.
            pub policy: SubmitPolicy,
            $($(#[doc = $counts])+ pub $counter: u64,)*
            $($(#[doc = $shows])+ pub $gauge: u64,)*
        }

        /// The live figures behind [`Metrics`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $counter: AtomicU64,)*
            $(pub(crate) $gauge: AtomicU64,)*
            published: OnceLock<Published>,
        }

        /// All figures, in the order of [`Metrics::values`].
        static FIGURES: &[MetricInfo] = &[
            $(MetricInfo {
                name: stringify!($counter),
                published: concat!("sortie_device_", stringify!($counter), "_total"),
                about: concat!($($counts),+),
                gauge: false,
            },)*
            $(MetricInfo {
                name: stringify!($gauge),
                published: concat!("sortie_device_", stringify!($gauge)),
                about: concat!($($shows),+),
                gauge: true,
            },)*
        ];

        const COUNT: usize = [$(stringify!($counter),)* $(stringify!($gauge),)*].len();

        impl Metrics {
            fn values(&self) -> [u64; COUNT] {
                [$(self.$counter,)* $(self.$gauge,)*]
            }
        }

        impl Counters {
            pub(crate) fn snapshot(&self, policy: SubmitPolicy) -> Metrics {
                Metrics {
                    policy,
                    $($counter: self.$counter.load(Ordering::Relaxed),)*
                    $($gauge: self.$gauge.load(Ordering::Relaxed),)*
                }
            }

            /// Lists the figures that differ from their published values, and updates those values. This runs for every
            /// batch, so the macro unrolls it: three instructions per unchanged figure.
            fn changes(&self, told: &mut [u64; COUNT], changes: &mut Changes) {
                let mut figure = 0;
                $(look(&self.$counter, &mut told[figure], figure, changes); figure += 1;)*
                $(look(&self.$gauge, &mut told[figure], figure, changes); figure += 1;)*
                debug_assert_eq!(figure, COUNT, "every figure has been looked at");
            }
        }

        impl std::ops::Sub for Metrics {
            type Output = Metrics;

            /// The events between two snapshots; gauges are those of the later one.
            fn sub(self, earlier: Metrics) -> Metrics {
                Metrics { $($counter: self.$counter.wrapping_sub(earlier.$counter),)* ..self }
            }
        }
    };
}

figures! {
    counters {
        /// Batches submitted.
        batches,
        /// Calls of `queue.submit`; on the built-in CPU, submissions executed.
        submissions,
        /// Additional submissions that the policy split batches into, beyond the splits the batches asked for.
        cuts,
        /// Additional dispatches that came from splitting a dispatch too long for one submission.
        pieces,
        /// Submissions that took longer than the budget their batch was split to keep.
        overruns,
        /// Total time by which they exceeded it, in microseconds.
        overrun_us,
        /// Runs of replays that were submitted as one prerecorded command. Resubmitted batches are not counted here.
        native_runs,
        /// Batches that were recorded for the device, because the same operations on the same buffers came again.
        batches_recorded,
        /// Batches that were submitted as the device's own recording of them.
        batches_resubmitted,
        /// Batches with a known plan, encoded because they had not run often enough with these buffers, or because
        /// their recording was not ready.
        resubmit_misses_buffers,
        /// Batches encoded because their immediates differ from those of the device's recording.
        resubmit_misses_immediates,
        /// Batches encoded because they are cut into submissions differently than the device's recording.
        resubmit_misses_cuts,
        /// Batches encoded because they are profiled.
        resubmit_misses_profiled,
        /// Batches encoded because the device cannot record them, or all memory for the data of runs was in use.
        resubmit_misses_unsupported,
        /// Replays recorded again for the device because the measured costs of their ops call for different cuts.
        replays_rerecorded,
        /// Compute passes encoded; on the built-in CPU, which has none, the passes that a GPU would have used.
        passes,
        /// Dispatches encoded, including those of fills.
        dispatches,
        /// Copies, clears, writes and reads encoded on the command encoder.
        transfers,
        /// Synchronization points within submissions: one between any two waves of a plan. wgpu, or a native replay,
        /// inserts the barriers themselves.
        barriers,
        /// Tensor operations without a kernel of their own: fused with others, read in place, or unused.
        fused_ops,
        /// Plans made because no cached one fitted.
        plans_made,
        /// Plans found by fingerprint.
        plan_hits,
        /// Compute pipelines compiled; on the built-in CPU, kernels prepared.
        pipelines_created,
        /// Kernels requested, by a program or for tensor operations, that were cached: neither parsed nor compiled
        /// again.
        pipeline_hits,
        /// Bytes of compiled pipelines loaded from the pipeline cache file when the device was opened.
        cache_bytes_loaded,
        /// Bytes of compiled pipelines written to that file.
        cache_bytes_saved,
        /// Bind groups created; the built-in CPU has none.
        bind_groups_created,
        /// Bind groups found in the cache or in a plan's own list.
        bind_group_hits,
        /// Device and staging buffers created; the built-in CPU stages nothing.
        buffers_created,
        /// Device and staging buffers reused from a pool.
        buffers_recycled,
        /// Writes to the device by batches, including the inputs of replay runs.
        uploads,
        /// Bytes written to the device by batches.
        bytes_written,
        /// Reads by batches, including the outputs of replay runs.
        reads,
        /// Bytes read back by batches.
        bytes_read,
    }
    gauges {
        /// Submissions in flight.
        in_flight,
        /// Bytes of device memory in use by buffers, by batches that are recorded or in flight, and by replays. Staging
        /// buffers and imported buffers are not counted.
        pool_bytes_live,
        /// Bytes of device memory idle in the pool.
        pool_bytes_idle,
        /// Peak of the bytes of device memory in use.
        pool_bytes_peak,
        /// Bytes of device memory in use beyond the requested sizes, because memory is allocated by size class.
        pool_bytes_wasted,
        /// Bytes of writes outside of batches (`Device::upload`, `Buffer::write`) that the device has not taken yet.
        staged_bytes,
        /// Bytes of device memory that recordings of batches keep: scratch memory, parameters, and memory for the data of
        /// writes and reads. They are freed when memory runs out, by `Device::trim`, and when they have not been used
        /// for long.
        recorded_bytes,
        /// Bytes of host memory for the data of native runs in flight, of replays and of recorded batches.
        run_memory_bytes,
        /// Bytes of device memory that a lost device's driver may still use. They are freed when the driver has
        /// finished the work submitted before the loss.
        retained_bytes,
    }
}

impl Counters {
    /// Publishes the figures on the facade from now on, under the name of the device.
    pub(crate) fn publish_as(&self, device: &str) {
        self.published.get_or_init(|| Published::new(device));
        self.publish();
    }

    /// Publishes the changed figures. Without a recorder this only compares each figure.
    pub(crate) fn publish(&self) {
        if let Some(published) = self.published.get() {
            // A recorder is foreign code and may panic; the publishing thread has callers waiting for it.
            drop(catch_unwind(AssertUnwindSafe(|| published.tell(|told, changes| self.changes(told, changes)))));
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.publish();
        if let Some(published) = self.published.get() {
            drop(catch_unwind(AssertUnwindSafe(|| published.withdraw())));
        }
    }
}

pub(crate) trait AtomicCounter {
    fn add(&self, n: u64);

    /// For gauges.
    fn sub(&self, n: u64);
}

impl AtomicCounter for AtomicU64 {
    #[inline]
    fn add(&self, n: u64) {
        if n > 0 {
            self.fetch_add(n, Ordering::Relaxed);
        }
    }

    #[inline]
    fn sub(&self, n: u64) {
        if n > 0 {
            self.fetch_sub(n, Ordering::Relaxed);
        }
    }
}
