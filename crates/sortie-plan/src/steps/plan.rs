//! The result of planning: a list of steps, and the tables they refer to.
//!
//! A plan refers to its recording by index and to nothing else, so it can be cached and used for every recording that
//! is [the same](crate::Recording::same_as). Invariant: running the steps in order, with scratch slots on their
//! assigned memory, gives the same bits as running the recording in order on zeroed scratch.

use super::step::{BarrierKind, Copy, Dispatch, Fill, MemoryId, OpId, Read, Step, StepId, Write, Zero};
use super::{Cut, ParamBlock};
use crate::{KernelIndex, Lane, SlotId};

/// A recording ordered, with memory assigned, as a list of steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// All steps, in order. Barriers and splits of the recording are resolved, and ops with nothing to do are left out.
    pub steps: Vec<Step>,
    /// Consecutive ranges of `steps`, covering them: one for each part between splits that has something to do.
    pub sections: Vec<Cut>,
    /// The table of [`Step::Dispatch`].
    pub dispatches: Vec<Dispatch>,
    /// The table of [`Step::Copy`].
    pub copies: Vec<Copy>,
    /// The table of [`Step::Fill`].
    pub fills: Vec<Fill>,
    /// The table of [`Step::Write`].
    pub writes: Vec<Write>,
    /// The table of [`Step::Read`].
    pub reads: Vec<Read>,
    /// The table of [`Step::Zero`].
    pub zeros: Vec<Zero>,
    /// The memory of each slot.
    pub memory: Vec<MemoryId>,
    /// Bytes of each scratch buffer. Their memory follows that of the slots.
    pub scratch: Vec<u64>,
    /// The contents of the parameter arena.
    pub params: Vec<ParamBlock>,
    /// Bytes of the parameter arena.
    pub params_bytes: u32,
    /// The entry points that it runs: kernels, and whether they are wrapped. Sorted.
    pub pipelines: Vec<(KernelIndex, bool)>,
}

impl Plan {
    /// Bytes of scratch memory that running this plan takes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.scratch.iter().sum()
    }

    /// The memory of a slot.
    #[must_use]
    #[inline]
    pub fn memory_of(&self, slot: SlotId) -> MemoryId {
        self.memory[slot.0 as usize]
    }

    /// The memory of the parameters, which follows the scratch buffers.
    #[must_use]
    pub fn params_memory(&self) -> MemoryId {
        MemoryId(u32::try_from(self.memory.len() + self.scratch.len()).expect("memory is indexed by u32"))
    }

    /// The steps of a submission.
    #[inline]
    pub fn steps_of(&self, cut: &Cut) -> impl Iterator<Item = (StepId, Step)> + '_ {
        (cut.steps.start..).map(StepId).zip(self.steps[cut.steps.range()].iter().copied())
    }

    /// The op of a step; `None` for steps that the planner added.
    #[must_use]
    pub fn op_of(&self, step: Step) -> Option<OpId> {
        match step {
            Step::Dispatch(id) => Some(self[id].op),
            Step::Copy(id) => Some(self[id].op),
            Step::Fill(id) => Some(self[id].op),
            Step::Write(id) => Some(self[id].op),
            Step::Read(id) => Some(self[id].op),
            Step::Params | Step::Zero(_) | Step::Input(_) | Step::Barrier(_) | Step::Output(_) => None,
        }
    }

    /// Where the step of an op is encoded; `None` for steps that the planner added.
    #[must_use]
    #[inline]
    pub fn lane_of(&self, step: Step) -> Option<Lane> {
        match step {
            Step::Dispatch(_) => Some(Lane::Compute),
            Step::Fill(id) => Some(self[id].lane()),
            Step::Copy(_) | Step::Write(_) | Step::Read(_) => Some(Lane::Transfer),
            Step::Params | Step::Zero(_) | Step::Input(_) | Step::Barrier(_) | Step::Output(_) => None,
        }
    }

    /// Whether the fill kernel runs: for patterns, and for zeroing in the middle of a pass.
    #[must_use]
    pub fn uses_fill_kernel(&self) -> bool {
        self.fills.iter().any(|fill| fill.lane() == Lane::Compute) || self.zeroes_in_passes()
    }

    /// Whether scratch is zeroed between the steps of a pass.
    #[must_use]
    pub fn zeroes_in_passes(&self) -> bool {
        self.zeros.iter().any(|zero| !zero.first)
    }

    /// Whether a dispatch reads its grid from memory.
    #[must_use]
    pub fn has_indirect(&self) -> bool {
        self.dispatches.iter().any(|dispatch| matches!(dispatch.groups, super::Groups::Indirect(_)))
    }

    /// Number of dispatches, including those of the fill kernel for patterns.
    #[must_use]
    pub fn num_dispatches(&self) -> usize {
        self.dispatches.len() + self.fills.iter().filter(|fill| fill.lane() == Lane::Compute).count()
    }

    /// Number of compute passes with these cuts: runs of consecutive compute steps within a submission.
    #[must_use]
    pub fn passes<'a>(&self, cuts: impl IntoIterator<Item = &'a Cut>) -> usize {
        let in_cut = |cut: &Cut| {
            let mut lane = Lane::Transfer;
            let lanes = self.steps[cut.steps.range()].iter().filter_map(|step| self.lane_of(*step));
            lanes.filter(|next| std::mem::replace(&mut lane, *next) != *next && *next == Lane::Compute).count()
        };
        cuts.into_iter().map(in_cut).sum()
    }

    /// Number of barriers with these cuts: one between any two waves of a submission.
    #[must_use]
    pub fn barriers<'a>(&self, cuts: impl IntoIterator<Item = &'a Cut>) -> usize {
        cuts.into_iter().map(|cut| cut.barriers as usize).sum()
    }

    /// Bytes of memory that the lists take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.steps[..])
            + size_of_val(&self.dispatches[..])
            + size_of_val(&self.copies[..])
            + size_of_val(&self.fills[..])
            + size_of_val(&self.writes[..])
            + size_of_val(&self.reads[..])
            + size_of_val(&self.zeros[..])
            + size_of_val(&self.memory[..])
            + size_of_val(&self.params[..])
    }
}

impl Step {
    /// Whether a wave ends here.
    #[must_use]
    #[inline]
    pub const fn is_wave_end(self) -> bool {
        matches!(self, Self::Barrier(BarrierKind::Wave))
    }
}

#[cfg(test)]
mod tests {
    use crate::draft::Draft;
    use crate::{Access, Caps, CutRule, cut, plan};

    #[test]
    fn the_peak_is_the_sum_of_the_buffers() {
        let mut draft = Draft::new();
        for bytes in [8, 24] {
            let slot = draft.scratch(bytes);
            draft.dispatch(&[Access::write(slot, 0..bytes)]);
        }
        assert_eq!(plan(&draft.recording, &Caps::default()).peak_bytes(), 32);
    }

    #[test]
    fn chained_dispatches_are_one_pass_of_as_many_waves() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..1000 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        let whole = plan.whole();
        assert_eq!((plan.barriers(&whole), plan.passes(&whole), whole.len()), (999, 1, 1));
    }

    #[test]
    fn barriers_lie_between_the_waves_of_a_submission_and_none_where_it_is_cut() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(4), draft.external(4));
        for _ in 0..4 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
            draft.dispatch(&[Access::read_write(y, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!(plan.barriers(&plan.whole()), 3);
        let every = |ops| plan.barriers(&cut(&plan, CutRule::Every(ops), |_| 0));
        // Two ops per wave: cut between waves, then in the middle of them, then everywhere.
        assert_eq!((every(4), every(3), every(1)), (2, 2, 0));
    }

    #[test]
    fn alternating_copies_and_dispatches_on_independent_buffers_are_one_pass() {
        let mut draft = Draft::new();
        for _ in 0..100 {
            let (x, y, z) = (draft.external(4), draft.external(4), draft.external(4));
            draft.transfer(&[Access::read(x, 0..4), Access::write(y, 0..4)]);
            draft.dispatch(&[Access::read_write(z, 0..4)]);
        }
        let passes = |caps| {
            let plan = plan(&draft.recording, &caps);
            plan.passes(&plan.whole())
        };
        assert_eq!(passes(Caps::default()), 1);
        assert_eq!(passes(Caps { reorder: false, ..Caps::default() }), 100);
    }

    #[test]
    fn a_pass_ends_with_its_submission() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..3 {
            draft.dispatch(&[Access::read(x, 0..4)]);
            draft.split();
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!(plan.passes(&plan.whole()), 3);
    }
}
