//! One recorded operation as plain data.
//!
//! An op refers to all variable-length data by [`Span`], so that recording it appends to lists and allocates nothing of
//! its own. Invariant: two equal ops in equal recordings mean the same work.

use crate::Span;

/// Index of a kernel in [`Recording::kernels`](crate::Recording::kernels).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelIndex(pub u32);

/// Index of a tensor operation in [`Recording::tensors`](crate::Recording::tensors); in a [lowered](crate::fuse::lower)
/// recording, of a program in [`Lowered::programs`](crate::fuse::Lowered::programs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorIndex(pub u32);

/// Where an operation is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Inside a compute pass.
    Compute,
    /// On the encoder itself, which closes the compute pass.
    Transfer,
}

/// The workgroups of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpGrid {
    /// Within the device's limit.
    Direct([u32; 3]),
    /// Over the device's limit, or a part of a [divided](crate::divide) dispatch: run by the kernel's wrapped entry
    /// point.
    Wrapped {
        /// The grid that the kernel sees.
        groups: [u32; 3],
        /// The workgroups of it that run, counted along the first axis, then the second, then the third; empty: all of
        /// them.
        share: Span,
    },
    /// Read from the last access of the op, 12 bytes with mode `Read`.
    Indirect,
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Runs a kernel. Its accesses are the kernel's bindings in order, then that of an indirect grid.
    Dispatch {
        /// The kernel.
        kernel: KernelIndex,
        /// Its workgroups.
        grid: OpGrid,
        /// Its immediates, in the caller's arena of immediates.
        immediates: Span,
        /// Bytes of the hidden parameter block with the immediates, on a device without immediates; else 0.
        hidden_immediates: u32,
    },
    /// A tensor operation. Accesses nothing until it is [lowered](crate::fuse::lower).
    Tensor {
        /// The operation.
        tensor: TensorIndex,
        /// Its scalars: bytes of the caller's arena of immediates; in a lowered recording, entries of
        /// [`Lowered::scalars`](crate::fuse::Lowered::scalars).
        scalars: Span,
    },
    /// Copies bytes from its first access to its second.
    Copy,
    /// Repeats a pattern over its access.
    Fill {
        /// The pattern, in the caller's arena of immediates; empty: zeros.
        pattern: Span,
        /// As for a dispatch, for the kernel that writes the pattern.
        hidden_immediates: u32,
    },
    /// Writes the caller's data to its access.
    Write {
        /// The data, in the caller's arena of writes.
        data: Span,
    },
    /// Reads the data of its access back to the caller.
    Read {
        /// The destination within the caller's readback.
        to: Span,
    },
    /// A fence: everything recorded later runs after everything recorded earlier. Accesses nothing itself.
    Barrier,
    /// A submission boundary. Accesses nothing itself.
    Split,
}

/// One recorded operation.
#[derive(Debug, Clone, Copy, Eq, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal in the same cases as derived")]
pub struct Op {
    /// Its kind.
    pub kind: OpKind,
    /// Its accesses, in [`Recording::accesses`](crate::Recording::accesses).
    pub accesses: Span,
}

impl PartialEq for Op {
    /// As derived, with the most frequent kind first: cached batches are compared op by op.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        if let (
            OpKind::Dispatch { kernel, grid: OpGrid::Direct([x, y, z]), immediates, hidden_immediates },
            OpKind::Dispatch {
                kernel: other_kernel,
                grid: OpGrid::Direct([other_x, other_y, other_z]),
                immediates: other_immediates,
                hidden_immediates: other_hidden,
            },
        ) = (&self.kind, &other.kind)
        {
            let different = (kernel.0 ^ other_kernel.0)
                | (x ^ other_x)
                | (y ^ other_y)
                | (z ^ other_z)
                | (hidden_immediates ^ other_hidden)
                | (immediates.start ^ other_immediates.start)
                | (immediates.len ^ other_immediates.len)
                | (self.accesses.start ^ other.accesses.start)
                | (self.accesses.len ^ other.accesses.len);
            return different == 0;
        }
        self.accesses == other.accesses && self.kind == other.kind
    }
}

impl Op {
    /// A fence or another op without accesses.
    #[must_use]
    pub const fn bare(kind: OpKind) -> Self {
        Self { kind, accesses: Span::EMPTY }
    }

    /// Where it is encoded. A fence is not encoded at all.
    #[must_use]
    #[inline]
    pub const fn lane(&self) -> Lane {
        match self.kind {
            OpKind::Dispatch { .. } | OpKind::Tensor { .. } => Lane::Compute,
            // A kernel writes patterns; zeros need none.
            OpKind::Fill { pattern, .. } if pattern.len > 0 => Lane::Compute,
            OpKind::Fill { .. }
            | OpKind::Copy
            | OpKind::Write { .. }
            | OpKind::Read { .. }
            | OpKind::Barrier
            | OpKind::Split => Lane::Transfer,
        }
    }

    /// Whether it is a barrier or a split.
    #[must_use]
    pub const fn is_fence(&self) -> bool {
        matches!(self.kind, OpKind::Barrier | OpKind::Split)
    }

    /// Whether it has nothing to do: no workgroups, or no bytes.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        match self.kind {
            OpKind::Dispatch {
                grid: OpGrid::Direct([x, y, z]) | OpGrid::Wrapped { groups: [x, y, z], .. }, ..
            } => x == 0 || y == 0 || z == 0,
            OpKind::Dispatch { grid: OpGrid::Indirect, .. } | OpKind::Tensor { .. } => false,
            _ => self.accesses.len == 0,
        }
    }

    /// Its bytes in the caller's arena of immediates; empty if it has none.
    #[must_use]
    #[inline]
    pub const fn immediates(&self) -> Span {
        match self.kind {
            OpKind::Dispatch { immediates: bytes, .. }
            | OpKind::Tensor { scalars: bytes, .. }
            | OpKind::Fill { pattern: bytes, .. } => bytes,
            _ => Span::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Op;

    #[test]
    fn an_op_fits_in_a_cache_line() {
        assert_eq!(size_of::<Op>(), 48);
    }
}
