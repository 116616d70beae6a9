//! One piece of device memory, shared by everything that names it.
//!
//! Invariant: while a `Block` lives, nobody else owns its buffer; when the last handle goes (user's, recording's or flight's), the
//! buffer goes home with no work pending on it: to the pool that it was taken from, or out of the table of imported buffers.
//!
//! A failed submission poisons the block that it writes until an overwrite of all of it. The overwrite counts for later
//! batches when its own batch is submitted, and for queued submissions when it reaches the device: a submission queued
//! before it still sees the failure.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::raw_buffer::{BufferId, DeviceMemory, RawBuffer, Usage};
use crate::error::{Error, ErrorKind};

/// Where the memory of a block goes when its last handle is dropped.
pub(crate) trait Home: Send + Sync {
    /// Takes the memory back; nothing is pending on it. The caller holds no lock.
    fn release(&self, raw: RawBuffer);
}

pub(crate) struct Block {
    home: Arc<dyn Home>,
    /// `None` only while dropping.
    raw: Option<RawBuffer>,
    owned: bool,
    /// Bytes visible to the user, rounded up to 4; the buffer itself may be longer.
    bytes: u64,
    mark_used: AtomicBool,
    /// The newest full overwrite that was asked for, by its sequence.
    claimed: AtomicU64,
    /// The newest full overwrite that has left for the device, by its place in the order.
    overwritten: AtomicU64,
    /// Whether there is a `poison`, so that asking costs no lock.
    poisoned: AtomicBool,
    poison: Mutex<Option<Poison>>,
    /// The slot it had in the recording that last asked for it: a hint, to be checked.
    slot_hint: AtomicU32,
}

impl Block {
    /// Memory out of a pool.
    pub(crate) fn owned(home: Arc<dyn Home>, raw: RawBuffer, bytes: u64) -> Arc<Self> {
        Self::new(home, raw, bytes, true)
    }

    /// Memory that the application owns: never pooled, only let go.
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

    /// Its memory, if it is of this backend.
    #[inline]
    pub(crate) fn memory<M: DeviceMemory>(&self) -> Option<&M> {
        self.raw().memory()
    }

    /// Somebody else's, who may have destroyed or mapped it.
    pub(crate) fn is_imported(&self) -> bool {
        !self.owned
    }

    /// What wgpu refuses although all our checks passed is most likely the doing of whoever owns an imported buffer.
    pub(crate) fn blame_import<'a>(blocks: impl IntoIterator<Item = &'a Arc<Self>>, error: Error) -> Error {
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
        self.raw().fresh && !self.mark_used.load(Ordering::Relaxed)
    }

    /// From now on it may have been written to.
    pub(crate) fn mark_used(&self) {
        self.mark_used.store(true, Ordering::Relaxed);
    }

    /// Whether the buffer was made for this use; ours are made for all of them.
    #[inline]
    pub(crate) fn allows(&self, wanted: Usage) -> bool {
        self.owned || self.import_allows(wanted)
    }

    /// Apart, so that recording does not carry it along.
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

    /// A full overwrite has been asked for: what fails before it does not matter to what comes after it.
    pub(crate) fn claim(&self, sequence: Sequence) {
        self.claimed.fetch_max(sequence.0, Ordering::Relaxed);
    }

    /// That overwrite will not happen.
    pub(crate) fn unclaim(&self, sequence: Sequence) {
        let _newer = self.claimed.compare_exchange(sequence.0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A full overwrite has left for the device. The caller has the turn of the submit line.
    pub(crate) fn overwrite(&self, order: u64) {
        // Sequentially consistent, as in `poison`: of two threads that do both at a time, one sees the other.
        self.overwritten.store(order, Ordering::SeqCst);
        if self.poisoned.load(Ordering::SeqCst) {
            self.lift();
        }
    }

    /// What lies in it is what a submission left behind that failed, unless it has been overwritten since.
    pub(crate) fn poison(&self, error: &Error, sequence: Sequence, order: u64) {
        // The earliest failure is the one worth knowing.
        self.poison.lock().get_or_insert_with(|| Poison { error: error.clone(), sequence, order });
        self.poisoned.store(true, Ordering::SeqCst);
        self.lift();
    }

    /// Forgets a failure that came before the newest full overwrite.
    fn lift(&self) {
        let mut poison = self.poison.lock();
        if poison.as_ref().is_some_and(|poison| poison.order < self.overwritten.load(Ordering::SeqCst)) {
            *poison = None;
            self.poisoned.store(false, Ordering::SeqCst);
        }
    }

    /// The failure that a batch submitted now would see, should all that is queued go well.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        let claimed = self.claimed.load(Ordering::Relaxed);
        self.poison_if(|poison| poison.sequence.0 >= claimed)
    }

    /// The failure that a submission which leaves now would see.
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

/// A failure that left something behind.
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

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("id", &self.id()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
