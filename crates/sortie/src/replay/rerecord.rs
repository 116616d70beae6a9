//! Rerecords a native replay when its cuts no longer fit the cost estimates of its ops.
//!
//! A replay is cut when it is frozen, by estimates that may rest on one run or on none. Each run compares the cuts with
//! those that the estimates call for now ([`FrozenPlan::fit`]). If they do not fit, the device's recorder thread
//! rerecords the replay, and the next run uses the new recording; runs in flight hold the one they started with. Until
//! then it runs as it is, or encoded if a submission would exceed its budget.
//!
//! Bound: once per doubling of its runs (in run 1, in 2 and 3, in 4 to 7, and so on), so recording stays a small share
//! of running.
//!
//! Cuts do not fit if the estimates ask for more than twice or less than half as many, or for more after a submission
//! has exceeded its budget. The new recording has the same ports, buffers and pipelines. Its scratch memory differs
//! where other dispatches are divided.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use super::ReplayInner;
use crate::{
    error::{CallSite, Result},
    metrics::AtomicCounter,
    plan::{Cuts, CutsFit, FrozenPlan, RunArgs},
};

/// Decides when a replay is rerecorded.
#[derive(Debug, Default)]
pub(super) struct Rerecord {
    /// Runs so far.
    runs: AtomicU64,
    /// The doubling of its runs in which it was last rerecorded.
    doublings: AtomicU32,
    /// Whether rerecording was requested and is not finished.
    pending: AtomicBool,
}

impl ReplayInner {
    /// The recording that the next run uses.
    pub(super) fn frozen(&self) -> Arc<FrozenPlan> {
        self.frozen.lock().clone()
    }

    /// The cuts of a run. Sets `run_args.encoded` if the run must be encoded.
    pub(super) fn cuts(self: &Arc<Self>, frozen: &FrozenPlan, run_args: &mut RunArgs, here: CallSite) -> Arc<Cuts> {
        let (costs, limits, rule) = (&self.core.costs, self.core.limits(), self.split.rule());
        if run_args.encoded || !frozen.is_native() {
            return frozen.encoded_cuts(costs, limits, rule);
        }
        let run = self.rerecord.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let fit = frozen.fit(costs, limits, rule);
        if fit != CutsFit::Good {
            self.ask_for_another(run, here);
        }
        if fit == CutsFit::TooFew {
            run_args.encoded = true;
            return frozen.encoded_cuts(costs, limits, rule);
        }
        frozen.cuts.clone()
    }

    /// Requests rerecording, unless it was done recently.
    fn ask_for_another(self: &Arc<Self>, run: u64, here: CallSite) {
        let (state, doublings) = (&self.rerecord, run.ilog2() + 1);
        let lately = || doublings <= state.doublings.load(Ordering::Relaxed);
        if lately() || state.pending.swap(true, Ordering::Acquire) {
            return;
        }
        // The previous request may have finished in between.
        if lately() {
            return state.pending.store(false, Ordering::Release);
        }
        // Whether the job succeeds, fails or is dropped.
        let pending = scopeguard::guard(Arc::downgrade(self), |replay| {
            if let Some(parts) = replay.upgrade() {
                parts.rerecord.pending.store(false, Ordering::Release);
            }
        });
        self.core.replay_thread.push(move || {
            // The replay was dropped.
            let Some(parts) = pending.upgrade() else { return };
            // A failure counts as done, so that it is not retried at once.
            let recorded = parts.record_anew(here).unwrap_or_else(|error| {
                tracing::debug!(target: "sortie", %error, "a replay was not recorded anew");
                true
            });
            if recorded {
                parts.rerecord.doublings.store(doublings, Ordering::Relaxed);
            }
        });
    }

    /// Returns false if it is no longer necessary.
    fn record_anew(&self, here: CallSite) -> Result<bool> {
        let (core, frozen) = (&self.core, self.frozen());
        let _inside = core.backend.enter();
        core.lost.check()?;
        // The estimates may have changed back meanwhile.
        let wanted = frozen.wanted(&core.costs, core.limits(), self.split.rule());
        if wanted.added() == frozen.cuts.added() {
            return Ok(false);
        }
        let [from, to] = [&frozen.cuts, &wanted].map(|cuts| cuts.list.len());
        let Some(next) = core.backend.refreeze(&frozen, wanted, here)? else { return Ok(true) };
        *self.frozen.lock() = Arc::new(next);
        core.counters.replays_rerecorded.add(1);
        tracing::debug!(target: "sortie", from, to, "a replay is recorded anew: submissions");
        Ok(true)
    }
}
