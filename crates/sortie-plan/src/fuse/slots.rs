//! What a segment does to each slot.
//!
//! One entry per slot of the recording, kept from segment to segment: only the entries that a segment used are reset.

use crate::SlotId;

/// No node, or no copy.
const NONE: u32 = u32::MAX;

/// What a segment does to a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotUse {
    /// The node that makes it.
    maker: u32,
    /// The copy that puts its value elsewhere.
    copy: u32,
    /// A tensor operation reads it.
    pub(super) read: bool,
    /// A value is computed in it, in place of a copy to it.
    pub(super) target: bool,
}

impl SlotUse {
    /// Whether the segment makes it.
    pub(super) fn is_made(&self) -> bool {
        self.maker != NONE || self.target
    }
}

/// What a segment does to each slot.
#[derive(Debug, Default)]
pub(super) struct Slots {
    list: Vec<SlotUse>,
}

impl Slots {
    const UNUSED: SlotUse = SlotUse { maker: NONE, copy: NONE, read: false, target: false };

    pub(super) fn new(count: usize) -> Self {
        Self { list: vec![Self::UNUSED; count] }
    }

    /// The node that makes a slot.
    pub(super) fn maker(&self, slot: SlotId) -> Option<usize> {
        Some(self[slot].maker).filter(|maker| *maker != NONE).map(|maker| maker as usize)
    }

    pub(super) fn set_maker(&mut self, slot: SlotId, node: usize) {
        self[slot].maker = u32::try_from(node).expect("a segment is short");
    }

    /// The copy that puts the value of a slot elsewhere.
    pub(super) fn copy(&self, slot: SlotId) -> Option<usize> {
        Some(self[slot].copy).filter(|copy| *copy != NONE).map(|copy| copy as usize)
    }

    pub(super) fn set_copy(&mut self, slot: SlotId, copy: usize) {
        self[slot].copy = u32::try_from(copy).expect("a segment has few copies");
    }

    pub(super) fn reset(&mut self, slot: SlotId) {
        self[slot] = Self::UNUSED;
    }
}

impl std::ops::Index<SlotId> for Slots {
    type Output = SlotUse;

    fn index(&self, slot: SlotId) -> &SlotUse {
        &self.list[slot.0 as usize]
    }
}

impl std::ops::IndexMut<SlotId> for Slots {
    fn index_mut(&mut self, slot: SlotId) -> &mut SlotUse {
        &mut self.list[slot.0 as usize]
    }
}
