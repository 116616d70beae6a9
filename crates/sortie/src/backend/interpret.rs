//! The loop over the steps of a submission, common to all backends.

use sortie_plan::{BarrierKind, Cut, Step, StepId};

use crate::{error::Result, plan::PlacedPlan};

/// Executes steps one after the other: encodes, records or runs them.
pub(crate) trait Interpreter {
    /// Executes one step, which is not a barrier.
    fn step(&mut self, step: Step) -> Result<()>;

    /// Later steps wait for earlier ones. Does nothing on backends that run steps in order.
    #[inline]
    fn barrier(&mut self, _kind: BarrierKind) {}

    /// The step that was just executed, for profiles.
    fn executed(&mut self, step: StepId);
}

/// Executes one submission of a plan.
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
