//! Cuts a recording into stretches within which tensor operations may be reordered.
//!
//! Invariant: within a stretch, all `first` ops may run before its tensor operations, and all `last` ops after them.

use crate::{Mode, Op, OpKind, Recording, SlotId, SlotKind, TensorIndex};

/// Ops without another in between that touches their memory.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    /// Writes of data.
    pub(super) first: Vec<u32>,
    /// Tensor operations in recorded order.
    pub(super) tensors: Vec<u32>,
    /// Reads, and copies of results.
    pub(super) last: Vec<u32>,
    /// The op after it, which stays where it is.
    pub(super) fence: Option<u32>,
    /// All of its ops in recorded order, without the fence.
    pub(super) ops: std::ops::Range<u32>,
}

pub(super) struct Stretches<'a> {
    recording: &'a Recording,
    next: u32,
    /// By slot: the number of the last stretch that touched it, and of the last that copies to it.
    touched: Vec<u32>,
    copied: Vec<u32>,
    number: u32,
}

impl<'a> Stretches<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        let slots = recording.slots.len();
        Self { recording, next: 0, touched: vec![0; slots], copied: vec![0; slots], number: 0 }
    }

    /// The next stretch, if there are ops left.
    pub(super) fn next(&mut self) -> Option<Stretch> {
        self.number += 1;
        let (start, ops) = (self.next, &self.recording.ops);
        let mut stretch = Stretch { ops: start..start, ..Stretch::default() };
        while let Some(op) = ops.get(self.next as usize) {
            if !self.takes(op, self.next, &mut stretch) {
                // An op that only waits for a copy begins the next stretch.
                if stretch.ops.is_empty() || !matches!(op.kind, OpKind::Tensor { .. }) {
                    stretch.fence = Some(self.next);
                    self.next += 1;
                }
                return Some(stretch);
            }
            self.next += 1;
            stretch.ops.end = self.next;
        }
        (!stretch.ops.is_empty()).then_some(stretch)
    }

    /// Adds an op to the stretch, if it may be part of it.
    fn takes(&mut self, op: &Op, number: u32, stretch: &mut Stretch) -> bool {
        let recording = self.recording;
        let accesses = recording.accesses_of(op);
        match op.kind {
            OpKind::Tensor { tensor: TensorIndex(tensor), .. } => {
                let tensor = &recording.tensors[tensor as usize];
                if tensor.inputs().iter().any(|input| self.is(&self.copied, input.slot)) {
                    return false;
                }
                tensor.inputs().iter().for_each(|input| self.touch(input.slot));
                self.touch(tensor.output.slot);
                stretch.tensors.push(number);
            }
            OpKind::Write { .. } if accesses.iter().all(|access| self.is_fresh(access.slot)) => {
                stretch.first.push(number);
            }
            OpKind::Read { .. } | OpKind::Copy => {
                for access in accesses.iter().filter(|access| access.mode != Mode::Read) {
                    let number = self.number;
                    self.copied[access.slot.0 as usize] = number;
                }
                stretch.last.push(number);
            }
            _ => return false,
        }
        accesses.iter().for_each(|access| self.touch(access.slot));
        true
    }

    fn is(&self, list: &[u32], slot: SlotId) -> bool {
        list[slot.0 as usize] == self.number
    }

    fn touch(&mut self, slot: SlotId) {
        self.touched[slot.0 as usize] = self.number;
    }

    /// Whether a slot is scratch that the stretch has not used yet.
    fn is_fresh(&self, slot: SlotId) -> bool {
        self.recording.slots[slot.0 as usize].kind == SlotKind::Scratch && !self.is(&self.touched, slot)
    }
}
