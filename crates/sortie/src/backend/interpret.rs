//! The loop over the steps of a submission, common to all backends.

use sortie_plan::{BarrierKind, Cut, Step, StepId};

use crate::{error::Result, plan::PlacedPlan};

/// Carries out steps, one after the other: encodes them, writes them down or runs them.
pub(crate) trait Interpreter {
    /// Carries out one step, which is no barrier.
    fn step(&mut self, step: Step) -> Result<()>;

    /// What follows waits for what came before, where that does not go without saying.
    #[inline]
    fn barrier(&mut self, _kind: BarrierKind) {}

    /// The step that was last carried out, for profiles.
    fn executed(&mut self, step: StepId);
}

/// Carries out one submission of a plan.
#[inline]
pub(crate) fn interpret(run: &PlacedPlan<'_>, cut: &Cut, into: &mut impl Interpreter) -> Result<()> {
    for (id, step) in run.plan().steps_of(cut) {
        if let Step::Barrier(kind) = step {
            into.barrier(kind);
        } else if run.wants(step) {
            into.step(step)?;
            into.executed(id);
        }
    }
    Ok(())
}
