//! The planner's answer: what runs when, side by side with what, on which memory.
//!
//! A plan refers to its recording by index and to nothing else, so it can be kept and used for every recording that
//! is [the same](Recording::same_as). Invariant: running the waves in order, with scratch slots on their physical
//! buffers and these zeroed as [`Plan::clears`] says, gives the bits that running the recording in order on zeroed
//! scratch gives.

use crate::{Caps, Clear, PhysicalId, Recording, Span, Wave, memory, order, params};

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
    fn the_peak_is_the_sum_of_the_buffers() {
        let mut draft = Draft::new();
        for bytes in [8, 24] {
            let slot = draft.scratch(bytes);
            draft.dispatch(&[Access::write(slot, 0..bytes)]);
        }
        assert_eq!(plan(&draft.recording, &Caps::default()).peak_bytes(), 32);
    }
}
