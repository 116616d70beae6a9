//! Submits batches as the device's own recordings of them, and bounds what these keep.
//!
//! `plan/recorded_batches.rs` has the rule. Recording runs on the thread `sortie-record`, and batches are encoded until
//! it is done.
//!
//! Bound: [`MAX_RECORDINGS`] per device, and [`MAX_BYTES`] of memory or a quarter of the memory budget. Beyond
//! them the least recently used is dropped. All are dropped when memory runs out, and by [`Device::trim`].
//!
//! [`Device::trim`]: crate::Device::trim

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use scopeguard::ScopeGuard;

use super::DeviceCore;
use crate::{
    error::CallSite,
    memory::Reclaim,
    metrics::AtomicCounter,
    plan::{BatchRun, Cuts, FrozenPlan, KnownBatch, Lookup, Miss, RecordedBatch, Resources},
};

/// Some shapes of batches, each with some sets of buffers.
const MAX_RECORDINGS: usize = 256;
const MAX_BYTES: u64 = 256 << 20;

/// The recordings of all batches of a device.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    all: Mutex<Vec<(Weak<KnownBatch>, Weak<FrozenPlan>)>>,
    /// Counts uses, to tell which was the last.
    clock: AtomicU64,
}

impl Recordings {
    /// Adds a recording. Drops others if there are too many.
    fn insert(&self, batch: &Arc<KnownBatch>, frozen: &Arc<FrozenPlan>, max_bytes: u64) {
        let mut all = self.all.lock();
        all.push((Arc::downgrade(batch), Arc::downgrade(frozen)));
        all.retain(|(_, frozen)| frozen.strong_count() > 0);
        let mut live: Vec<_> =
            all.iter().filter_map(|(batch, frozen)| Some((batch.upgrade()?, frozen.upgrade()?))).collect();
        drop(all);
        live.sort_by_key(|(_, frozen)| std::cmp::Reverse(frozen.last_used()));
        let mut bytes = 0;
        for (number, (batch, frozen)) in live.iter().enumerate() {
            bytes += frozen.max_bytes();
            if number >= MAX_RECORDINGS || bytes > max_bytes {
                batch.forget(frozen);
            }
        }
    }
}

impl Reclaim for Recordings {
    /// Drops all recordings. Their memory is free once their runs in flight are done.
    fn reclaim(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        for (batch, frozen) in all {
            if let (Some(batch), Some(frozen)) = (batch.upgrade(), frozen.upgrade()) {
                batch.forget(&frozen);
            }
        }
    }
}

impl DeviceCore {
    /// The device's own recording of a batch and its cuts, if there is one. Otherwise it may be recorded for later runs.
    pub(crate) fn recording_of(
        self: &Arc<Self>,
        batch: &Arc<KnownBatch>,
        run: BatchRun<'_>,
        profiled: bool,
        at: CallSite,
    ) -> Option<(Arc<FrozenPlan>, Arc<Cuts>)> {
        let most = self.abilities.recorded_run_bytes;
        if most == 0 || !self.options.auto_replay || run.cuts.list.is_empty() {
            return None;
        }
        let counters = &self.counters;
        if run.resources.read_bytes.max(run.resources.uploads.len() as u64) > most {
            counters.resubmit_misses_unsupported.add(1);
            return None;
        }
        if profiled {
            counters.resubmit_misses_profiled.add(1);
            return None;
        }
        match batch.look_up(run) {
            Lookup::Found(frozen, cuts) => {
                frozen.set_last_used(self.recordings.clock.fetch_add(1, Ordering::Relaxed));
                return Some((frozen, cuts));
            }
            Lookup::Record { refreshes_params } => {
                self.record_later(batch, run, refreshes_params, at);
                match refreshes_params {
                    true => counters.resubmit_misses_immediates.add(1),
                    false => counters.resubmit_misses_buffers.add(1),
                }
            }
            Lookup::Miss(Miss::Buffers) => counters.resubmit_misses_buffers.add(1),
            Lookup::Miss(Miss::Immediates) => counters.resubmit_misses_immediates.add(1),
            Lookup::Miss(Miss::Cuts) => counters.resubmit_misses_cuts.add(1),
            Lookup::Miss(Miss::Unsupported) => counters.resubmit_misses_unsupported.add(1),
        }
        None
    }

    /// Records a batch on the thread for that. Until then it holds the buffers.
    fn record_later(
        self: &Arc<Self>,
        batch: &Arc<KnownBatch>,
        run: BatchRun<'_>,
        refreshes_params: bool,
        at: CallSite,
    ) {
        let Resources { blocks, kernels, immediates, uploads, read_bytes, .. } = run.resources;
        let resources = Resources {
            blocks: blocks.clone(),
            kernels: kernels.clone(),
            immediates: immediates.clone(),
            uploads: uploads.clone(),
            read_bytes: *read_bytes,
            ..Resources::default()
        };
        // Dropped without a result, it may be asked for again.
        let pending = scopeguard::guard(Arc::downgrade(batch), |batch| {
            if let Some(batch) = batch.upgrade() {
                batch.gave_up();
            }
        });
        let (core, cuts) = (Arc::downgrade(self), run.cuts.clone());
        self.replay_thread.push(move || {
            let (Some(core), Some(batch)) = (core.upgrade(), pending.upgrade()) else { return };
            let buffers = resources.blocks.iter().flatten().map(|block| block.id()).collect();
            let immediates = (!refreshes_params).then(|| resources.immediates.clone().into_boxed_slice());
            let _inside = core.backend.enter();
            let recorded = core
                .lost
                .check()
                .and_then(|()| core.backend.record_batch(&batch.plan, cuts.clone(), resources, refreshes_params, at));
            if let Err(error) = &recorded {
                tracing::debug!(target: "sortie", %error, "a batch is not recorded for the device");
                if core.lost.check().is_err() {
                    return;
                }
            }
            drop(ScopeGuard::into_inner(pending));
            let Ok(Some(frozen)) = recorded else { return batch.refused(refreshes_params) };
            let frozen = Arc::new(frozen.counted(core.counters.clone()));
            frozen.set_last_used(core.recordings.clock.fetch_add(1, Ordering::Relaxed));
            core.counters.batches_recorded.add(1);
            batch.recorded(RecordedBatch { buffers, immediates, cuts, frozen: frozen.clone() });
            let max_bytes = core.options.memory_budget.map_or(MAX_BYTES, |budget| MAX_BYTES.min(budget / 4));
            core.recordings.insert(&batch, &frozen, max_bytes);
        });
    }
}
