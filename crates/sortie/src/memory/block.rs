//! One piece of device memory, shared by every handle that refers to it.
//!
//! Invariant: while a `Block` lives, nothing else owns its buffer. When the last handle is dropped (user's, recording's
//! or submission's), no work is pending on the buffer. It then returns to its pool, or leaves the table of imported
//! buffers.
//!
//! A failed submission poisons the block that it writes until an overwrite of all of it. The overwrite counts for later
//! batches when its own batch is submitted, and for queued submissions when it reaches the device: a submission queued
//! before it still sees the failure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::raw_buffer::{BufferId, DeviceMemory, RawBuffer, Usage};
use crate::error::{Error, ErrorKind};

/// Where the memory of a block goes when its last handle is dropped.
pub(crate) trait Home: Send + Sync {
    /// Takes the memory back. No work is pending on it. The caller holds no lock.
    fn release(&self, raw: RawBuffer);
}

#[derive(derive_more::Debug)]
#[debug("Block {{ id: {:?}, bytes: {bytes}, .. }}", self.id())]
pub(crate) struct Block {
    home: Arc<dyn Home>,
    /// `None` only while dropping.
    raw: Option<RawBuffer>,
    owned: bool,
    /// Bytes visible to the user, rounded up to 4; the buffer itself may be longer.
    bytes: u64,
    mark_used: AtomicBool,
    /// Sequence of the newest full overwrite that was handed over.
    claimed: AtomicU64,
    /// Order number of the newest full overwrite that was submitted.
    overwritten: AtomicU64,
    /// Whether `poison` is set, so that checking takes no lock.
    poisoned: AtomicBool,
    poison: Mutex<Option<Poison>>,
    /// Its slot in the recording that last used it. A hint, to be checked.
    slot_hint: AtomicU32,
}

impl Block {
    /// Memory from a pool.
    pub(crate) fn owned(home: Arc<dyn Home>, raw: RawBuffer, bytes: u64) -> Arc<Self> {
        Self::new(home, raw, bytes, true)
    }

    /// Memory that the application owns: never pooled, only released.
    pub(crate) fn imported(home: Arc<dyn Home>, memory: Box<dyn DeviceMemory>, bytes: u64) -> Arc<Self> {
        Self::new(home, RawBuffer::used(memory, bytes), bytes, false)
    }

    fn new(home: Arc<dyn Home>, raw: RawBuffer, bytes: u64, owned: bool) -> Arc<Self> {
        Arc::new(Self {
            home,
            raw: Some(raw),
            owned,
            bytes,
            mark_used: AtomicBool::new(false),
            claimed: AtomicU64::new(0),
            overwritten: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            slot_hint: AtomicU32::new(0),
        })
    }

    pub(crate) fn id(&self) -> BufferId {
        self.raw().id
    }

    /// Its memory, if it belongs to this backend.
    #[inline]
    pub(crate) fn memory<M: DeviceMemory>(&self) -> Option<&M> {
        self.raw().memory()
    }

    /// Whether the application owns the buffer; it may have destroyed or mapped it.
    pub(crate) fn is_imported(&self) -> bool {
        !self.owned
    }

    /// If wgpu refuses work although all our checks passed, the owner of an imported buffer is the likely cause.
    pub(crate) fn blame_import<'a>(blocks: impl IntoIterator<Item = &'a Arc<Self>>, error: Error) -> Error {
        let foreign = blocks.into_iter().any(|block| block.is_imported());
        if !foreign || error.kind() != ErrorKind::Internal {
            return error;
        }
        let message =
            format!("{error}: an imported buffer may have been destroyed, be mapped, or belong to another device");
        Error::new(ErrorKind::Bindings, message).caused_by(error)
    }

    /// Whether it is new and nothing has been written to it yet.
    pub(crate) fn fresh(&self) -> bool {
        self.raw().fresh && !self.mark_used.load(Ordering::Relaxed)
    }

    /// It may be written to from now on.
    pub(crate) fn mark_used(&self) {
        self.mark_used.store(true, Ordering::Relaxed);
    }

    /// Whether the buffer was created with this usage. Our own buffers have all of them.
    #[inline]
    pub(crate) fn allows(&self, wanted: Usage) -> bool {
        self.owned || self.import_allows(wanted)
    }

    /// Out of line, to keep it off the recording path.
    #[cold]
    fn import_allows(&self, wanted: Usage) -> bool {
        self.raw().memory.allows(wanted)
    }

    #[inline]
    pub(crate) fn slot_hint(&self) -> u32 {
        self.slot_hint.load(Ordering::Relaxed)
    }

    pub(crate) fn set_hint(&self, slot: u32) {
        self.slot_hint.store(slot, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A full overwrite was handed over: later batches do not see failures from before it.
    pub(crate) fn claim(&self, sequence: Sequence) {
        self.claimed.fetch_max(sequence.0, Ordering::Relaxed);
    }

    /// The claimed overwrite will not happen.
    pub(crate) fn unclaim(&self, sequence: Sequence) {
        let _newer = self.claimed.compare_exchange(sequence.0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A full overwrite was submitted. The caller has the turn of the submit queue.
    pub(crate) fn overwrite(&self, order: u64) {
        // Sequentially consistent, as in `poison`: if two threads run both at once, one sees the other's store.
        self.overwritten.store(order, Ordering::SeqCst);
        if self.poisoned.load(Ordering::SeqCst) {
            self.lift();
        }
    }

    /// Marks the contents as left by a failed submission, unless they have been overwritten since.
    pub(crate) fn poison(&self, error: &Error, sequence: Sequence, order: u64) {
        // The earliest failure is the useful one.
        self.poison.lock().get_or_insert_with(|| Poison { error: error.clone(), sequence, order });
        self.poisoned.store(true, Ordering::SeqCst);
        self.lift();
    }

    /// Clears a failure that is older than the newest full overwrite.
    fn lift(&self) {
        let mut poison = self.poison.lock();
        if poison.as_ref().is_some_and(|poison| poison.order < self.overwritten.load(Ordering::SeqCst)) {
            *poison = None;
            self.poisoned.store(false, Ordering::SeqCst);
        }
    }

    /// The failure that a batch handed over now would see, if everything queued succeeds.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        let claimed = self.claimed.load(Ordering::Relaxed);
        self.poison_if(|poison| poison.sequence.0 >= claimed)
    }

    /// The failure that a submission submitted now would see.
    pub(crate) fn poisoned_now(&self) -> Option<Error> {
        self.poison_if(|_| true)
    }

    fn poison_if(&self, matters: impl FnOnce(&Poison) -> bool) -> Option<Error> {
        if !self.poisoned.load(Ordering::Acquire) {
            return None;
        }
        self.poison.lock().as_ref().filter(|poison| matters(poison)).map(|poison| poison.error.clone())
    }

    fn raw(&self) -> &RawBuffer {
        self.raw.as_ref().unwrap_or_else(|| unreachable!("a block's buffer is taken only in drop"))
    }
}

/// A failure that left the contents undefined.
#[derive(Debug)]
struct Poison {
    error: Error,
    sequence: Sequence,
    order: u64,
}

/// Numbers batches and writes in the order in which they were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.home.release(raw);
        }
    }
}
