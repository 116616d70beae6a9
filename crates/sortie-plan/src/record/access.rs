//! The access of an operation to a byte range of a slot. The planner knows no other effects.
//!
//! Invariant: an access is not empty (`start < end`) and within its slot.

use std::ops::Range;

use crate::SlotId;

/// The mode of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Bytes are read, none is changed.
    Read,
    /// Every byte of the range is overwritten, none is read.
    Write,
    /// Bytes may be read, and some may be left unchanged.
    ReadWrite,
}

/// An access to one byte range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// The accessed memory.
    pub slot: SlotId,
    /// The mode.
    pub mode: Mode,
    /// First byte.
    pub start: u64,
    /// The byte after the last one; greater than `start`.
    pub end: u64,
}

impl Access {
    /// An access to `bytes`.
    #[must_use]
    #[inline]
    pub const fn new(slot: SlotId, mode: Mode, bytes: Range<u64>) -> Self {
        Self { slot, mode, start: bytes.start, end: bytes.end }
    }

    /// A [`Mode::Read`] of `bytes`.
    #[must_use]
    #[inline]
    pub const fn read(slot: SlotId, bytes: Range<u64>) -> Self {
        Self::new(slot, Mode::Read, bytes)
    }

    /// A [`Mode::Write`] of `bytes`.
    #[must_use]
    #[inline]
    pub const fn write(slot: SlotId, bytes: Range<u64>) -> Self {
        Self::new(slot, Mode::Write, bytes)
    }

    /// A [`Mode::ReadWrite`] of `bytes`.
    #[must_use]
    #[inline]
    pub const fn read_write(slot: SlotId, bytes: Range<u64>) -> Self {
        Self::new(slot, Mode::ReadWrite, bytes)
    }

    /// Whether swapping two operations with these accesses could change the result: they overlap and at least one is
    /// not a read.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.start < other.end
            && other.start < self.end
            && !(self.mode == Mode::Read && other.mode == Mode::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Mode};
    use crate::SlotId;

    const MODES: [Mode; 3] = [Mode::Read, Mode::Write, Mode::ReadWrite];

    #[test]
    fn overlapping_accesses_conflict_unless_both_read() {
        for left in MODES {
            for right in MODES {
                let reads = left == Mode::Read && right == Mode::Read;
                let a = Access::new(SlotId(0), left, 0..8);
                let b = Access::new(SlotId(0), right, 4..12);
                assert_eq!(a.conflicts(&b), !reads, "{left:?} then {right:?}");
                assert_eq!(b.conflicts(&a), !reads, "{right:?} then {left:?}");
            }
        }
    }

    #[test]
    fn neighbouring_ranges_do_not_conflict() {
        let low = Access::write(SlotId(0), 0..4);
        let high = Access::write(SlotId(0), 4..8);
        assert!(!low.conflicts(&high));
        assert!(!high.conflicts(&low));
    }

    #[test]
    fn different_slots_do_not_conflict() {
        let here = Access::write(SlotId(0), 0..4);
        let there = Access::write(SlotId(1), 0..4);
        assert!(!here.conflicts(&there));
    }
}
