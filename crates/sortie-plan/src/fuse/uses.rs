//! The uses of each slot in a recording.

use crate::{OpKind, Recording, SlotId};

/// Who reads and writes each slot. The lists of all slots are one list.
#[derive(Debug)]
pub(super) struct Uses {
    /// Number of accesses by ops that are not tensor operations.
    plain: Vec<u32>,
    /// Where the readers of each slot end in `readers`; they start where those of the slot before end.
    ends: Vec<u32>,
    readers: Vec<u32>,
}

impl Uses {
    pub(super) fn of(recording: &Recording) -> Self {
        let slots = recording.slots.len();
        let mut uses = Self { plain: vec![0; slots], ends: vec![0; slots + 1], readers: Vec::new() };
        // Counted first, then filled in: no list per slot.
        for op in &recording.ops {
            if let OpKind::Tensor { tensor, .. } = op.kind {
                each_slot(recording.tensors[tensor.0 as usize].inputs(), |slot| uses.ends[slot + 1] += 1);
            } else {
                recording.accesses_of(op).iter().for_each(|access| uses.plain[access.slot.0 as usize] += 1);
            }
        }
        for slot in 0..slots {
            uses.ends[slot + 1] += uses.ends[slot];
        }
        uses.readers = vec![0; uses.ends[slots] as usize];
        for (number, op) in (0..).zip(&recording.ops) {
            if let OpKind::Tensor { tensor, .. } = op.kind {
                each_slot(recording.tensors[tensor.0 as usize].inputs(), |slot| {
                    uses.readers[uses.ends[slot] as usize] = number;
                    uses.ends[slot] += 1;
                });
            }
        }
        uses
    }

    /// Number of accesses by ops that are not tensor operations.
    pub(super) fn plain(&self, slot: SlotId) -> u32 {
        self.plain[slot.0 as usize]
    }

    /// The tensor operations that read a slot, in order.
    pub(super) fn readers(&self, slot: SlotId) -> &[u32] {
        let slot = slot.0 as usize;
        let start = slot.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.readers[start as usize..self.ends[slot] as usize]
    }
}

/// Calls `f` with each slot once.
fn each_slot(inputs: &[crate::TensorRef], mut f: impl FnMut(usize)) {
    for (at, input) in inputs.iter().enumerate() {
        if inputs[..at].iter().all(|before| before.slot != input.slot) {
            f(input.slot.0 as usize);
        }
    }
}
