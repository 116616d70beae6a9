//! One piece of memory, whole, in or out of the pool.

use std::sync::atomic::{AtomicU64, Ordering};

use super::words::Words;

/// Identity of one piece of memory, never given twice in a process. Bind groups are cached by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BufferId(pub(crate) u64);

impl BufferId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One piece of memory, whole.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) id: BufferId,
    pub(crate) store: Store,
    /// Never used since it was made, hence all zero.
    pub(crate) fresh: bool,
    /// Bytes that whoever has it asked for: the rest of it is waste.
    pub(crate) asked: u64,
}

/// Where the bytes are: the same kind for all memory of a device.
#[derive(Debug)]
pub(crate) enum Store {
    Wgpu(wgpu::Buffer),
    Cpu(Words),
}

impl Raw {
    pub(super) fn fresh(store: Store) -> Self {
        Self { id: BufferId::next(), store, fresh: true, asked: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.store {
            Store::Wgpu(buffer) => buffer.size(),
            Store::Cpu(words) => words.bytes(),
        }
    }
}
