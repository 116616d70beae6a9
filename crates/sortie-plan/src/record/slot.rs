//! Memory as a recording names it: slots numbered by first use, never buffer ids.
//!
//! Numbers instead of buffers make two recordings of the same shape equal, whatever buffers they run on.
//! Invariant: different slots never share memory as far as the recording is concerned. Whoever records gives every
//! buffer one slot; only the planner puts several scratch slots on one physical buffer.

/// Number of a slot: its index in [`Recording::slots`](crate::Recording::slots).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

/// Whose memory a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// A buffer that exists before and after the batch.
    External,
    /// Memory that lives for this batch only and reads as zero wherever it was not written.
    Scratch,
}

/// What the planner knows of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotInfo {
    /// Whose memory it is.
    pub kind: SlotKind,
    /// Its length in bytes.
    pub bytes: u64,
}
