//! Counters of a device: what it created, submitted and reused since it was opened.
//!
//! They are how tests state cost exactly ("1,000 ops, one submission, one pass") without a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::SubmitPolicy;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A snapshot of a device's counters, all counted since the device was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            /// How the device is given its work.
            pub policy: SubmitPolicy,
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The live counters behind [`Metrics`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self, policy: SubmitPolicy) -> Metrics {
                Metrics { policy, $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::Sub for Metrics {
            type Output = Metrics;

            /// What happened between two snapshots.
            fn sub(self, earlier: Metrics) -> Metrics {
                Metrics { policy: self.policy, $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
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
    /// Compute passes encoded; on the built-in CPU, which has none, as many as there would be.
    passes,
    /// Dispatches encoded, those of fills included.
    dispatches,
    /// Copies, clears, writes and reads encoded on the command encoder.
    transfers,
    /// Plans made because no cached one fitted.
    plans_made,
    /// Plans found by fingerprint.
    plan_hits,
    /// Compute pipelines compiled; on the built-in CPU, kernels made ready.
    pipelines_created,
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
    /// Bytes written to the device by batches.
    bytes_written,
    /// Bytes read back by batches.
    bytes_read,
}

pub(crate) trait Count {
    fn add(&self, n: u64);
}

impl Count for AtomicU64 {
    fn add(&self, n: u64) {
        self.fetch_add(n, Ordering::Relaxed);
    }
}
