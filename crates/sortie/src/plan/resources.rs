//! The handles and bytes that a recording refers to by number.

use std::sync::Arc;

use super::OpNames;
use crate::{kernel::Kernel, memory::Block};

/// The handles and data of one recording. Its lists are reused from batch to batch, so recording does not allocate per
/// op.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    /// By slot; `None` for scratch until it is placed.
    pub(crate) blocks: Vec<Option<Arc<Block>>>,
    pub(crate) kernels: Vec<Kernel>,
    /// Immediates of dispatches, scalars of tensor operations and patterns of fills, at `Op::immediates`.
    pub(crate) immediates: Vec<u8>,
    /// Data of writes, at `data` of `OpKind::Write`.
    pub(crate) uploads: Vec<u8>,
    /// Bytes of all reads in the readback buffer.
    pub(crate) read_bytes: u64,
    pub(crate) names: OpNames,
}

impl Resources {
    /// Clears everything but keeps the capacity.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.kernels.clear();
        self.immediates.clear();
        self.uploads.clear();
        self.read_bytes = 0;
        self.names.clear();
    }
}
