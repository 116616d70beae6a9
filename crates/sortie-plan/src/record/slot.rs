//! Memory as a recording names it: slots numbered by first use, never buffer ids.
//!
//! Numbers instead of buffers make two recordings of the same shape equal, whatever buffers they run on. Invariant:
//! within the recording, different slots never share memory. The recorder assigns every buffer one slot; only the
//! planner puts several scratch slots on one physical buffer.

/// Number of a slot: its index in [`Recording::slots`](crate::Recording::slots).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

/// The owner of a slot's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// A buffer that exists before and after the batch.
    External,
    /// Memory that lives for this batch only and reads as zero until it is written.
    Scratch,
}

/// The planner's view of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotInfo {
    /// The owner of its memory.
    pub kind: SlotKind,
    /// Its length in bytes.
    pub bytes: u64,
}
