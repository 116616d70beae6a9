//! A native replay recorded anew when its cuts no longer suit what its ops are known to cost.
//!
//! It is cut when it is frozen, by estimates that may rest on one run, or on none. Each run compares them with what the
//! estimates ask for now ([`FrozenPlan::fit`]). Where they do not fit, it is recorded anew on the device's recorder thread, and the next run finds the new
//! recording; runs under way hold the one that they began with. Until then it runs as it is, or encoded where a submission would exceed its budget.
//!
//! Bound: once for each doubling of its runs (in run 1, in 2 and 3, in 4 to 7, and so on), so recording stays a small share of running.
//!
//! Cuts do not fit if the estimates ask for more than twice or less than half as many, or for more after a submission
//! has exceeded its budget. The new recording has the same ports, buffers and pipelines. Its scratch memory differs
//! where other dispatches are divided.

use std::{
    panic::Location,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use super::ReplayInner;
use crate::{
    error::Result,
    metrics::AtomicCounter,
    plan::{Cuts, CutsFit, FrozenPlan, RunArgs},
};

/// When a replay is recorded anew.
#[derive(Debug, Default)]
pub(super) struct Rerecord {
    /// Runs so far.
    runs: AtomicU64,
    /// The doublings of its runs, the last of which it was recorded anew in.
    doublings: AtomicU32,
    /// Whether it has been asked for and is not there yet.
    pending: AtomicBool,
}

/// A replay that is to be recorded anew. Ends with the job, whatever becomes of it.
struct Pending(Weak<ReplayInner>);

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(parts) = self.0.upgrade() {
            parts.rerecord.pending.store(false, Ordering::Release);
        }
    }
}

impl ReplayInner {
    /// The recording that the next run uses.
    pub(super) fn frozen(&self) -> Arc<FrozenPlan> {
        self.frozen.lock().clone()
    }

    /// Where a run is cut, and whether it is to be encoded.
    pub(super) fn cuts(
        self: &Arc<Self>,
        frozen: &FrozenPlan,
        run_args: &mut RunArgs,
        here: &'static Location<'static>,
    ) -> Arc<Cuts> {
        let (costs, limits, rule) = (self.core.costs(), self.core.limits(), self.split.rule());
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
        frozen.recorded_cuts().clone()
    }

    /// Has it recorded anew, unless that has been done lately.
    fn ask_for_another(self: &Arc<Self>, run: u64, here: &'static Location<'static>) {
        let (state, doublings) = (&self.rerecord, run.ilog2() + 1);
        let lately = || doublings <= state.doublings.load(Ordering::Relaxed);
        if lately() || state.pending.swap(true, Ordering::Acquire) {
            return;
        }
        // The one before may have ended in between.
        if lately() {
            return state.pending.store(false, Ordering::Release);
        }
        let pending = Pending(Arc::downgrade(self));
        self.core.replay_thread().push(move || {
            // Nobody needs a recording of a replay that is gone.
            let Some(parts) = pending.0.upgrade() else { return };
            // One that fails is not tried again at once.
            let recorded = parts.record_anew(here).unwrap_or_else(|error| {
                tracing::debug!(target: "sortie", %error, "a replay was not recorded anew");
                true
            });
            if recorded {
                parts.rerecord.doublings.store(doublings, Ordering::Relaxed);
            }
        });
    }

    /// False where there is no need any more.
    fn record_anew(&self, here: &'static Location<'static>) -> Result<bool> {
        let (core, frozen) = (&self.core, self.frozen());
        let _inside = core.enter();
        core.lost().check()?;
        // The estimates may have come back meanwhile.
        let wanted = frozen.wanted(core.costs(), core.limits(), self.split.rule());
        if wanted.added() == frozen.recorded_cuts().added() {
            return Ok(false);
        }
        let [from, to] = [frozen.recorded_cuts(), &wanted].map(|cuts| cuts.list.len());
        let Some(next) = core.backend().refreeze(&frozen, wanted, here)? else { return Ok(true) };
        *self.frozen.lock() = Arc::new(next);
        core.counters().replays_rerecorded.add(1);
        tracing::debug!(target: "sortie", from, to, "a replay is recorded anew: submissions");
        Ok(true)
    }
}
