//! One step, and the tables with its details.
//!
//! A [`Step`] is 8 bytes: a kind and an index into the table of that kind, so that the list stays small and is read in
//! order. Bindings are the recording's own accesses.

use std::ops::Index;

use crate::{Access, KernelIndex, Lane, Plan, Port, Span};

/// Index of a step in [`Plan::steps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

/// Index of an op in [`Recording::ops`](crate::Recording::ops).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

/// An index of memory: the slots of the recording, then the scratch buffers of the plan, then its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u32);

/// One step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Uploads the hidden parameters, [`Plan::params`].
    Params,
    /// Zeros scratch memory.
    Zero(ZeroId),
    /// Copies an input of a replay's run into the replay's memory.
    Input(PortId),
    /// Runs a kernel.
    Dispatch(DispatchId),
    /// Copies bytes.
    Copy(CopyId),
    /// Repeats a pattern.
    Fill(FillId),
    /// Writes the caller's data to memory.
    Write(WriteId),
    /// Reads data back to the caller.
    Read(ReadId),
    /// Later steps wait for earlier ones.
    Barrier(BarrierKind),
    /// Reads an output of a replay's run back.
    Output(PortId),
}

/// Why there is a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BarrierKind {
    /// A wave ends, and the next one begins. A submission that begins with it starts after it.
    Wave,
    /// Scratch memory has been zeroed.
    Zeroed,
}

/// A kernel to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// Its op.
    pub op: OpId,
    /// The kernel.
    pub kernel: KernelIndex,
    /// Its bindings, in [`Recording::accesses`](crate::Recording::accesses).
    pub bindings: Span,
    /// The workgroups to dispatch.
    pub groups: Groups,
    /// Its immediates, in the caller's arena.
    pub immediates: Span,
    /// Offsets of its hidden parameters.
    pub hidden: HiddenAt,
}

/// Workgroups as a device dispatches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// As recorded.
    Direct([u32; 3]),
    /// Folded to the device's limit: the wrapped entry point computes the original group of each.
    Wrapped([u32; 3]),
    /// Read from memory.
    Indirect(AccessId),
}

/// Index of an access in [`Recording::accesses`](crate::Recording::accesses).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessId(pub u32);

/// Offsets of hidden parameter blocks in the arena; 0 if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HiddenAt {
    /// The block with the immediates.
    pub immediates: u32,
    /// The block with the grid.
    pub grid: u32,
}

/// A copy between accesses of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Its op.
    pub op: OpId,
    /// The source.
    pub from: Access,
    /// The destination.
    pub to: Access,
}

/// A fill with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Its op. A long fill is several steps.
    pub op: OpId,
    /// The destination.
    pub to: Access,
    /// The pattern, in the caller's arena of immediates; empty: zeros.
    pub pattern: Span,
    /// Offset of the hidden parameter block with the fill kernel's immediates; 0 if there is none.
    pub hidden_immediates: u32,
}

impl Fill {
    /// Where it is encoded.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        if self.pattern.len > 0 { Lane::Compute } else { Lane::Transfer }
    }
}

/// A write of the caller's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Its op.
    pub op: OpId,
    /// The destination.
    pub to: Access,
    /// The data, in the caller's arena of writes.
    pub data: Span,
}

/// A read of data back to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Its op.
    pub op: OpId,
    /// The source.
    pub from: Access,
    /// The destination within the caller's readback.
    pub to: Span,
}

/// Scratch memory to zero, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zero {
    /// The memory.
    pub memory: MemoryId,
    /// Number of bytes.
    pub bytes: u64,
    /// No earlier step used the memory: not needed if the memory is allocated zeroed.
    pub first: bool,
    /// The lane of the steps that follow. If that is compute, zeroing by a kernel keeps the pass open.
    pub lane: Lane,
}

/// Declares the ids of a plan's tables, and indexing a plan by them.
macro_rules! tables {
    ($($id:ident, $table:ident, $entry:ty;)*) => {$(
        #[doc = concat!("Index of an entry in `Plan::", stringify!($table), "`.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(pub u32);

        impl Index<$id> for Plan {
            type Output = $entry;

            #[inline]
            fn index(&self, id: $id) -> &$entry {
                &self.$table[id.0 as usize]
            }
        }
    )*};
}

tables! {
    DispatchId, dispatches, Dispatch;
    CopyId, copies, Copy;
    FillId, fills, Fill;
    WriteId, writes, Write;
    ReadId, reads, Read;
    ZeroId, zeros, Zero;
}

/// Index of a port among the inputs or outputs of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// The port, from the inputs or outputs that the step refers to.
    #[must_use]
    pub fn of(self, ports: &[Port]) -> Port {
        ports[self.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::{Dispatch, Step};

    #[test]
    fn a_step_has_8_bytes_and_a_dispatch_48() {
        assert_eq!(size_of::<Step>(), 8);
        assert_eq!(size_of::<Dispatch>(), 48);
    }
}
