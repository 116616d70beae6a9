//! The planner's answer: what runs when, side by side with what, on which memory.
//!
//! A plan refers to its recording by index and to nothing else, so it can be kept and used for every recording that
//! is [the same](Recording::same_as). Invariant: running the waves in order, with scratch slots on their physical
//! buffers and these zeroed as [`Plan::clears`] says, gives the bits that running the recording in order on zeroed
//! scratch gives.

use crate::{Caps, Lane, Part, Recording, Span, memory, order, params};

/// Operations that may run side by side: none of them conflicts with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wave {
    /// The lane of all its operations.
    pub lane: Lane,
    /// Its operations, in [`Plan::order`].
    pub ops: Span,
}

/// Number of a physical scratch buffer: its index in [`Plan::physical`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalId(pub u32);

/// Bytes that must be zero before some wave begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clear {
    /// The wave, as an index into [`Plan::waves`].
    pub wave: u32,
    /// The buffer to zero, from its beginning.
    pub physical: PhysicalId,
    /// How many bytes: the length of the slot that moves in.
    pub bytes: u64,
    /// Nothing in this plan used the buffer before, so a buffer that comes zeroed needs no clear.
    pub first: bool,
}

/// A recording ordered and given memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Op numbers in execution order; barriers and splits have done their work and do not appear.
    pub order: Vec<u32>,
    /// Consecutive runs of `order`, covering it.
    pub waves: Vec<Wave>,
    /// Consecutive runs of `waves`, covering them: one for each stretch between splits that holds any work.
    pub submissions: Vec<Span>,
    /// For each slot, the buffer it lies on; `None` for external and for unused slots.
    pub placement: Vec<Option<PhysicalId>>,
    /// Bytes of each physical scratch buffer.
    pub physical: Vec<u64>,
    /// What to zero, sorted by wave.
    pub clears: Vec<Clear>,
    /// For each op of the recording, the aligned offsets of its parameter blocks in the arena; 0 where there is none.
    pub params: Vec<[u32; 2]>,
    /// Bytes of the parameter arena.
    pub params_bytes: u32,
}

/// Plans a recording.
///
/// # Panics
///
/// When the aligned parameter blocks come to 4 GiB: that takes 16 million ops, which no batch records.
#[must_use]
pub fn plan(recording: &Recording, caps: &Caps) -> Plan {
    let schedule = order::order(recording, caps.reorder);
    let memory = memory::place(recording, &schedule, caps.reuse);
    let params = params::lay_out(recording, caps.params_align);
    Plan {
        order: schedule.order,
        waves: schedule.waves,
        submissions: schedule.submissions,
        placement: memory.placement,
        physical: memory.physical,
        clears: memory.clears,
        params: params.offsets,
        params_bytes: params.bytes,
    }
}

impl Plan {
    /// Number of compute passes: runs of consecutive compute waves within a submission.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.passes_of(self.parts())
    }

    /// Number of compute passes when it is cut into these parts.
    #[must_use]
    pub fn passes_of(&self, parts: impl IntoIterator<Item = Part>) -> usize {
        let in_part = |part: Part| {
            let ops = part.ops.range();
            let first = self.waves.partition_point(|wave| wave.ops.range().end <= ops.start);
            let waves = self.waves[first..].iter().take_while(|wave| wave.ops.range().start < ops.end);
            let mut lane = Lane::Transfer;
            waves
                .filter(|wave| std::mem::replace(&mut lane, wave.lane) != wave.lane && wave.lane == Lane::Compute)
                .count()
        };
        parts.into_iter().map(in_part).sum()
    }

    /// Points at which what follows waits for what came before, when it is cut into these parts: one between any two waves of a part.
    #[must_use]
    pub fn barriers_of(&self, parts: impl IntoIterator<Item = Part>) -> usize {
        let in_part = |part: Part| {
            let ops = part.ops.range();
            let first = self.waves.partition_point(|wave| wave.ops.range().end <= ops.start);
            let end = self.waves.partition_point(|wave| wave.ops.range().start < ops.end);
            end.saturating_sub(first + 1)
        };
        parts.into_iter().map(in_part).sum()
    }

    /// Bytes of scratch memory that running this plan takes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.physical.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::draft::Draft;
    use crate::{Access, Caps};

    #[test]
    fn chained_dispatches_are_one_pass_of_as_many_waves() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..1000 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!(plan.waves.len(), 1000);
        assert_eq!(plan.passes(), 1);
        assert_eq!(plan.submissions.len(), 1);
    }

    #[test]
    fn barriers_lie_between_the_waves_of_a_part_and_none_where_it_is_cut() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(4), draft.external(4));
        for _ in 0..4 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
            draft.dispatch(&[Access::read_write(y, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!((plan.waves.len(), plan.barriers_of(plan.parts())), (4, 3));
        let every = |ops| plan.barriers_of(crate::split(&plan, crate::Rule::Every(ops), |_| 0));
        // Two ops to a wave: cut between waves, then in the middle of them, then everywhere.
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
        let in_order = Caps { reorder: false, ..Caps::default() };
        assert_eq!(plan(&draft.recording, &Caps::default()).passes(), 1);
        assert_eq!(plan(&draft.recording, &in_order).passes(), 100);
    }

    #[test]
    fn a_pass_ends_with_its_submission() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..3 {
            draft.dispatch(&[Access::read(x, 0..4)]);
            draft.split();
        }
        assert_eq!(plan(&draft.recording, &Caps::default()).passes(), 3);
    }

    #[test]
    fn the_peak_is_the_sum_of_the_buffers() {
        let mut draft = Draft::new();
        for bytes in [8, 24] {
            let slot = draft.scratch(bytes);
            draft.dispatch(&[Access::write(slot, 0..bytes)]);
        }
        assert_eq!(plan(&draft.recording, &Caps::default()).peak_bytes(), 32);
    }
}
