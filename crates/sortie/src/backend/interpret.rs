//! The loop over the steps of a submission, common to all backends.

use sortie_plan::{Cut, Step, StepId};

use crate::{error::Result, plan::PlacedPlan};

/// Carries out steps, one after the other: encodes them, writes them down or runs them.
pub(crate) trait Interpreter {
    /// Carries out one step.
    fn step(&mut self, step: Step) -> Result<()>;

    /// The step that was last carried out, for profiles. Barriers are left out.
    fn executed(&mut self, step: StepId);
}

/// Carries out one submission of a plan.
#[inline]
pub(crate) fn interpret(run: &PlacedPlan<'_>, cut: &Cut, into: &mut impl Interpreter) -> Result<()> {
    for (id, step) in run.plan().steps_of(cut) {
        if run.wants(step) {
            into.step(step)?;
            if !matches!(step, Step::Barrier(_)) {
                into.executed(id);
            }
        }
    }
    Ok(())
}
