//! One recorded operation as plain data.
//!
//! An op refers to everything of variable length by [`Span`], so that recording it appends to lists and allocates
//! nothing of its own. Invariant: two equal ops in equal recordings ask for the same work.

use crate::Span;

/// Where an operation is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Inside a compute pass.
    Compute,
    /// On the encoder itself, which closes the compute pass.
    Transfer,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Runs a kernel.
    Dispatch,
    /// A tensor operation: its number in [`Recording::tensors`](crate::Recording::tensors) is its kernel. Touches nothing until it is
    /// [lowered](crate::fuse::lower).
    Tensor,
    /// Copies bytes between slots.
    Copy,
    /// Fills a range with one value.
    Fill,
    /// Puts the caller's data into a slot.
    Write,
    /// Brings a slot's data back to the caller.
    Read,
    /// A fence: everything recorded later runs after everything recorded earlier. Touches nothing itself.
    Barrier,
    /// A submission boundary. Touches nothing itself.
    Split,
}

/// One recorded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Where it is encoded; without meaning for [`OpKind::Barrier`] and [`OpKind::Split`].
    pub lane: Lane,
    /// Index into [`Recording::kernels`](crate::Recording::kernels); 0 where there is no kernel.
    pub kernel: u32,
    /// What it touches, in [`Recording::accesses`](crate::Recording::accesses).
    pub accesses: Span,
    /// Number of workgroups; zeros where there are none.
    pub grid: [u32; 3],
    /// Which of the grid's workgroups it runs, counted along the first axis, then the second, then the third; empty: all of them. Only a
    /// [divided](crate::divide) recording has such ops.
    pub share: Span,
    /// The grid is read from the last access instead, 12 bytes that are only read.
    pub indirect: bool,
    /// A part of the caller's byte arenas; opaque to the planner, but part of what makes recordings equal.
    pub data: Span,
    /// Byte lengths of up to two hidden parameter blocks; 0 where there is none.
    pub params: [u32; 2],
}

impl Op {
    /// A dispatch of nothing that touches nothing: what to start from when naming only some fields.
    pub const NOTHING: Self = Self {
        kind: OpKind::Dispatch,
        lane: Lane::Compute,
        kernel: 0,
        accesses: Span::EMPTY,
        grid: [0; 3],
        share: Span::EMPTY,
        indirect: false,
        data: Span::EMPTY,
        params: [0, 0],
    };
}

#[cfg(test)]
mod tests {
    use super::Op;

    #[test]
    fn an_op_fits_in_a_cache_line() {
        assert!(size_of::<Op>() <= 64);
    }
}
