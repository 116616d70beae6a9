//! One piece of device memory, shared by everything that names it.
//!
//! Invariant: while a `Block` lives, nobody else owns its buffer; when the last handle goes (user's, recording's or flight's), the
//! buffer returns to the pool with no work pending on it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    raw::{BufferId, Raw, Store},
    words::Words,
};
use crate::{
    device::Shared,
    error::{Error, ErrorKind},
};

pub(crate) struct Block {
    shared: Arc<Shared>,
    /// `None` only while dropping.
    raw: Option<Raw>,
    owned: bool,
    /// Bytes visible to the user, rounded up to 4; the buffer itself may be longer.
    bytes: u64,
    stale: AtomicBool,
    poisoned: AtomicBool,
    poison: Mutex<Option<Error>>,
    /// The slot it had in the recording that last asked for it: a hint, to be checked.
    hint: AtomicU32,
}

impl Block {
    /// Memory out of the pool.
    pub(crate) fn owned(shared: Arc<Shared>, raw: Raw, bytes: u64) -> Arc<Self> {
        Self::new(shared, raw, bytes, true)
    }

    /// Somebody else's buffer: never pooled, only let go.
    pub(crate) fn imported(shared: Arc<Shared>, buffer: wgpu::Buffer) -> Arc<Self> {
        let bytes = buffer.size() & !3;
        let raw = Raw { id: BufferId::next(), store: Store::Wgpu(buffer), fresh: false, asked: bytes };
        Self::new(shared, raw, bytes, false)
    }

    fn new(shared: Arc<Shared>, raw: Raw, bytes: u64, owned: bool) -> Arc<Self> {
        Arc::new(Self {
            shared,
            raw: Some(raw),
            owned,
            bytes,
            stale: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            hint: AtomicU32::new(0),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn id(&self) -> BufferId {
        self.raw().id
    }

    pub(crate) fn store(&self) -> &Store {
        &self.raw().store
    }

    /// The memory of a wgpu device.
    #[inline]
    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        match self.store() {
            Store::Wgpu(buffer) => buffer,
            Store::Cpu(_) => unreachable!("wgpu's executor is given memory of wgpu's"),
        }
    }

    /// The memory of the built-in CPU.
    #[inline]
    pub(crate) fn words(&self) -> &Words {
        match self.store() {
            Store::Cpu(words) => words,
            Store::Wgpu(_) => unreachable!("the CPU's executor is given memory of its own"),
        }
    }

    /// Somebody else's, who may have destroyed or mapped it.
    pub(crate) fn is_imported(&self) -> bool {
        !self.owned
    }

    /// What wgpu refuses although all our checks passed is most likely the doing of whoever owns an imported buffer.
    pub(crate) fn blame<'a>(blocks: impl IntoIterator<Item = &'a Arc<Self>>, error: Error) -> Error {
        let foreign = blocks.into_iter().any(|block| block.is_imported());
        if !foreign || *error.kind() != ErrorKind::Internal {
            return error;
        }
        let message =
            format!("{error}: an imported buffer may have been destroyed, be mapped, or belong to another device");
        Error::new(ErrorKind::Bindings, message).caused_by(error)
    }

    /// Whether it has just been made and nothing has been written to it yet.
    pub(crate) fn fresh(&self) -> bool {
        self.raw().fresh && !self.stale.load(Ordering::Relaxed)
    }

    /// From now on it may have been written to.
    pub(crate) fn stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Whether the buffer was made for this use; ours are made for all of them.
    #[inline]
    pub(crate) fn allows(&self, wanted: Use) -> bool {
        self.owned || self.buffer().usage().contains(wanted.usage())
    }

    #[inline]
    pub(crate) fn hint(&self) -> u32 {
        self.hint.load(Ordering::Relaxed)
    }

    pub(crate) fn set_hint(&self, slot: u32) {
        self.hint.store(slot, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What lies in it is what a failed submission left behind.
    pub(crate) fn poison(&self, error: &Error) {
        // The earliest failure is the one worth knowing.
        self.poison.lock().get_or_insert_with(|| error.clone());
        self.poisoned.store(true, Ordering::Release);
    }

    /// Lifts the poison and returns it, so that it can be put back if what lifted it fails.
    pub(crate) fn cleanse(&self) -> Option<Error> {
        if !self.poisoned.load(Ordering::Acquire) {
            return None;
        }
        let mut poison = self.poison.lock();
        self.poisoned.store(false, Ordering::Release);
        poison.take()
    }

    pub(crate) fn poisoned(&self) -> Option<Error> {
        if self.poisoned.load(Ordering::Acquire) { self.poison.lock().clone() } else { None }
    }

    fn raw(&self) -> &Raw {
        self.raw.as_ref().unwrap_or_else(|| unreachable!("a block's buffer is taken only in drop"))
    }
}

/// What a buffer may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Storage,
    Uniform,
    Indirect,
    CopyFrom,
    CopyTo,
}

impl Use {
    fn usage(self) -> wgpu::BufferUsages {
        match self {
            Self::Storage => wgpu::BufferUsages::STORAGE,
            Self::Uniform => wgpu::BufferUsages::UNIFORM,
            Self::Indirect => wgpu::BufferUsages::INDIRECT,
            Self::CopyFrom => wgpu::BufferUsages::COPY_SRC,
            Self::CopyTo => wgpu::BufferUsages::COPY_DST,
        }
    }
}

impl fmt::Display for Use {
    /// wgpu's own name, which is what the user has to add.
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

impl Drop for Block {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        if self.owned {
            self.shared.pool().put(raw);
        } else {
            self.shared.forget_imported(&raw);
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("id", &self.id()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
