//! One whole device buffer, in use or in the pool, and the traits that a backend implements for it.

use std::{
    any::Any,
    fmt::{self, Debug},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::error::Result;

/// Identity of one buffer, unique in the process. Bind groups are cached by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BufferId(pub(crate) u64);

impl BufferId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A backend's memory object. Backends get their own type with [`Block::memory`](super::Block::memory).
pub(crate) trait DeviceMemory: Any + Debug + Send + Sync {
    /// Whether it was created with this usage. Memory of a pool has all of them.
    fn allows(&self, _wanted: Usage) -> bool {
        true
    }

    /// It goes back to its pool: what was derived from its contents is no longer needed.
    fn recycled(&self) {}
}

/// Creates the memory that a pool recycles.
pub(crate) trait MemorySource: Send + Sync {
    /// At least `bytes`, zeroed.
    fn create(&self, bytes: u64) -> Result<Box<dyn DeviceMemory>>;

    /// The memory with these ids is freed next: a backend's caches must drop it.
    fn freeing(&self, _ids: &[BufferId]) {}

    /// Memory runs out: drops what can be made again.
    fn trim(&self) {}
}

/// One whole buffer.
#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) id: BufferId,
    pub(super) memory: Box<dyn DeviceMemory>,
    /// Its full size in bytes.
    pub(super) bytes: u64,
    /// Never used since it was created, hence all zero.
    pub(super) fresh: bool,
    /// Bytes that its current owner asked for; the rest is wasted.
    pub(super) asked: u64,
}

impl RawBuffer {
    /// Newly created memory, all zero.
    pub(super) fn fresh(memory: Box<dyn DeviceMemory>, bytes: u64) -> Self {
        Self { id: BufferId::next(), memory, bytes, fresh: true, asked: 0 }
    }

    /// Memory that may have been written to.
    pub(super) fn used(memory: Box<dyn DeviceMemory>, bytes: u64) -> Self {
        Self { id: BufferId::next(), memory, bytes, fresh: false, asked: bytes }
    }

    /// Its memory, if it belongs to this backend.
    #[inline]
    pub(crate) fn memory<M: DeviceMemory>(&self) -> Option<&M> {
        let memory: &dyn Any = &*self.memory;
        memory.downcast_ref()
    }
}

/// Ways to use a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    Storage,
    Uniform,
    Indirect,
    CopyFrom,
    CopyTo,
}

impl fmt::Display for Usage {
    /// wgpu's name of the usage, which the user has to add.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "STORAGE",
            Self::Uniform => "UNIFORM",
            Self::Indirect => "INDIRECT",
            Self::CopyFrom => "COPY_SRC",
            Self::CopyTo => "COPY_DST",
        })
    }
}
