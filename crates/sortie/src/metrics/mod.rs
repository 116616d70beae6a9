//! What a device has done and has in hand: as a snapshot, and through the `metrics` facade.
//!
//! Counters are how tests state cost exactly ("1,000 ops, one submission, one pass") without a clock. They are plain atomics, added to at most once for each batch,
//! submission or piece of memory; the facade hears of them when a batch has landed, so that no op pays for it.

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

/// A figure of [`Metrics`], as it is called and explained elsewhere.
#[derive(Debug)]
struct MetricInfo {
    name: &'static str,
    /// Its name on the facade.
    published: &'static str,
    about: &'static str,
    gauge: bool,
}

/// Figures by number, what was told of each, and what it is now. A batch changes about ten.
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
        /// A snapshot of what a device has done since it was opened, and of what it has in hand.
        ///
        /// Counters only grow; the difference of two snapshots is what happened between them. Gauges (`in_flight` and all that count bytes which are held) say how things
        /// are: a difference has those of the later snapshot.
        ///
        /// All of them are also published through the [`metrics`](https://docs.rs/metrics) facade, with the label `device` (its name): counters as
        /// `sortie_device_<field>_total`, gauges as `sortie_device_<field>`. A recorder hears of the devices that are opened after it was installed, each time
        /// that a batch has landed, before whoever waits for it does: it must not wait for the device itself. Devices of the same name are added up; what is in hand goes
        /// with the device.
        ///
        /// ```
        /// let device = sortie::Device::cpu()?;
        /// let x = device.upload(&[1_u32, 2, 3])?;
        /// let before = device.metrics();
        /// let mut batch = device.batch();
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
            /// How the device is given its work.
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
        }

        impl Counters {
            /// Takes over what differs from what was told last, and lists it. It comes with every batch, so it is written out: three instructions for each figure that is
            /// as it was.
            fn changes(&self, told: &mut [u64; COUNT], changes: &mut Changes) {
                let mut figure = 0;
                $(look(&self.$counter, &mut told[figure], figure, changes); figure += 1;)*
                $(look(&self.$gauge, &mut told[figure], figure, changes); figure += 1;)*
                debug_assert_eq!(figure, COUNT, "every figure has been looked at");
            }
        }

        impl std::ops::Sub for Metrics {
            type Output = Metrics;

            /// What happened between two snapshots; gauges are those of the later one.
            fn sub(self, earlier: Metrics) -> Metrics {
                Metrics { $($counter: self.$counter.wrapping_sub(earlier.$counter),)* ..self }
            }
        }
    };
}

figures! {
    counters {
        /// Batches handed over.
        batches,
        /// Calls of `queue.submit`; on the built-in CPU, submissions run.
        submissions,
        /// Submissions that batches were cut into by the policy, beyond what they asked for.
        cuts,
        /// Pieces that dispatches too long for one submission were divided into, beyond the dispatches.
        pieces,
        /// Submissions of batches that were cut to keep a budget which took longer than it.
        overruns,
        /// By how much, in all, in microseconds.
        overrun_us,
        /// Runs of replays that went to the device as one command, recorded once.
        native_runs,
        /// Replays recorded anew for the device because their cuts no longer suited what their ops are known to cost.
        replays_rerecorded,
        /// Compute passes encoded; on the built-in CPU, which has none, as many as there would be.
        passes,
        /// Dispatches encoded, those of fills included.
        dispatches,
        /// Copies, clears, writes and reads encoded on the command encoder.
        transfers,
        /// Points within submissions at which what follows waits for what came before: one between any two waves of a plan. The barriers themselves are wgpu's to insert, or
        /// a native replay's.
        barriers,
        /// Tensor operations without a kernel of their own: they share one with others, are read where they lie, or nobody needs them.
        fused_ops,
        /// Plans made because no cached one fitted.
        plans_made,
        /// Plans found by fingerprint.
        plan_hits,
        /// Compute pipelines compiled; on the built-in CPU, kernels made ready.
        pipelines_created,
        /// Kernels asked for, by a program or for tensor operations, that were known already: neither parsed nor compiled again.
        pipeline_hits,
        /// Bytes of compiled pipelines found in the pipeline cache's file when the device was opened.
        cache_bytes_loaded,
        /// Bytes of compiled pipelines written to that file.
        cache_bytes_saved,
        /// Bind groups created; the built-in CPU has none.
        bind_groups_created,
        /// Bind groups found in the cache or in a plan's own list.
        bind_group_hits,
        /// Device and staging buffers created; the built-in CPU stages nothing.
        buffers_created,
        /// Device and staging buffers taken from a pool instead.
        buffers_recycled,
        /// Writes to the device by batches: those recorded, and what runs of replays bring.
        uploads,
        /// Bytes written to the device by batches.
        bytes_written,
        /// Reads by batches: those recorded, and what runs of replays ask for.
        reads,
        /// Bytes read back by batches.
        bytes_read,
    }
    gauges {
        /// Submissions under way.
        in_flight,
        /// Bytes of device memory in use: by buffers, by what is recorded or under way, by replays. Neither staging buffers nor imported ones.
        pool_bytes_live,
        /// Bytes of device memory that lie idle in the pool.
        pool_bytes_idle,
        /// Most bytes of device memory that were in use at once.
        pool_bytes_peak,
        /// Bytes of device memory in use that nobody asked for: memory is taken by size class.
        pool_bytes_wasted,
        /// Bytes of writes outside of batches (`Device::upload`, `Buffer::write`) that the device has not taken yet.
        staged_bytes,
        /// Bytes of device memory that a lost device's driver may still use. They are freed when the driver has finished the work that it was given before the loss.
        retained_bytes,
    }
}

impl Counters {
    /// From now on the facade hears of them, by the name of the device.
    pub(crate) fn publish_as(&self, device: &str) {
        self.published.get_or_init(|| Published::new(device));
        self.publish();
    }

    /// So many inputs and outputs of one run of a replay.
    pub(crate) fn moved(&self, [brought, asked]: [usize; 2]) {
        self.uploads.add(brought as u64);
        self.reads.add(asked as u64);
    }

    /// Tells the facade what has changed. Without a recorder that is a look at each figure.
    pub(crate) fn publish(&self) {
        if let Some(published) = self.published.get() {
            // A recorder is somebody else's, and others wait for whoever publishes.
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

    /// Of a gauge.
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
