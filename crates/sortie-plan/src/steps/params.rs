//! The hidden parameter blocks: all in one arena, so that one upload writes them to the device.
//!
//! Invariant: blocks are aligned, do not overlap, and are in the order of the steps.

use super::{FillId, GRID_BLOCK};
use crate::Span;

/// One block of the parameter arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamBlock {
    /// The immediates of a dispatch.
    Immediates {
        /// Its offset.
        at: u32,
        /// The bytes, in the caller's arena of immediates.
        bytes: Span,
    },
    /// The grid of a wrapped dispatch: the arguments of [`grid_block`](crate::grid_block).
    Grid {
        /// Its offset.
        at: u32,
        /// The grid that the kernel sees.
        groups: [u32; 3],
        /// The first of its groups that runs.
        first: u32,
        /// The group after the last one.
        end: u32,
    },
    /// The immediates of the fill kernel, for this step.
    Fill {
        /// Its offset.
        at: u32,
        /// The step.
        fill: FillId,
    },
}

/// Allocates aligned offsets.
#[derive(Debug)]
pub(super) struct Arena {
    align: u32,
    end: u32,
}

impl Arena {
    /// An empty arena; an alignment of 0 counts as 1.
    pub(super) fn new(align: u32) -> Self {
        Self { align: align.max(1), end: 0 }
    }

    /// The offset of the next block of this length.
    pub(super) fn take(&mut self, len: u32) -> u32 {
        let block =
            self.end.checked_next_multiple_of(self.align).and_then(|start| Some((start, start.checked_add(len)?)));
        let (start, end) = block.expect("the parameters of one batch stay below 4 GiB");
        self.end = end;
        start
    }

    /// The offset of the next block with a grid.
    pub(super) fn take_grid(&mut self) -> u32 {
        self.take(GRID_BLOCK as u32)
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> u32 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn blocks_are_aligned_and_follow_each_other() {
        let table = [(256, [0, 256, 768], 776), (16, [0, 16, 288], 296), (1, [0, 4, 264], 272), (0, [0, 4, 264], 272)];
        for (align, offsets, bytes) in table {
            let mut arena = Arena::new(align);
            assert_eq!([4, 260, 8].map(|len| arena.take(len)), offsets, "aligned to {align}");
            assert_eq!(arena.bytes(), bytes, "aligned to {align}");
        }
    }
}
