//! Resident matrices as products read them: packed into panels once, when a product first uses them.
//!
//! Memory is resident if the host wrote it last: a weight. What kernels write changes from run to run, and is packed for
//! each product. Panels take memory of the pool, so they count like any buffer. There are none if the memory budget has
//! no room for them, and they are dropped when it runs out. Invariant: panels are dropped before their matrix changes,
//! and with its buffer.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use sortie_cpu::{Threads, native};

use super::{host_memory, native::PanelKey};
use crate::memory::{Block, Pool};

/// Matrices of one buffer in panels; the oldest is dropped for one more.
const MOST: usize = 256;

/// The panels of one buffer's matrices.
#[derive(Debug, Default)]
pub(super) struct Panels {
    /// The host wrote it last.
    resident: AtomicBool,
    list: Arc<PanelList>,
}

#[derive(Debug, Default)]
struct PanelList {
    known: Mutex<Vec<PackedMatrix>>,
}

#[derive(Debug)]
struct PackedMatrix {
    /// The first word of its input in the buffer.
    start: usize,
    key: PanelKey,
    block: Arc<Block>,
}

impl PanelList {
    fn clear(&self) {
        let dropped = std::mem::take(&mut *self.known.lock());
        drop(dropped);
    }
}

impl Panels {
    /// The host has written to the memory.
    pub(super) fn written_by_host(&self) {
        self.changed();
        self.resident.store(true, Ordering::Relaxed);
    }

    /// Something else than the host writes to the memory, or it goes back to its pool.
    #[inline]
    pub(super) fn changed(&self) {
        if self.wanted() && self.resident.swap(false, Ordering::Relaxed) {
            self.list.clear();
        }
    }

    /// Whether a matrix in the memory should be in panels.
    #[inline]
    pub(super) fn wanted(&self) -> bool {
        self.resident.load(Ordering::Relaxed)
    }

    fn find(&self, start: usize, key: PanelKey) -> Option<Arc<Block>> {
        let known = self.list.known.lock();
        known.iter().find(|packed| packed.start == start && packed.key == key).map(|packed| packed.block.clone())
    }

    /// The panels of a matrix, which is packed at its first use. `words` is its input, which starts at a word of the
    /// buffer.
    pub(super) fn of(
        &self,
        (start, words): (usize, &[u32]),
        key: PanelKey,
        store: &PanelStore,
        threads: &Threads,
    ) -> Option<Arc<Block>> {
        self.find(start, key).or_else(|| {
            let block = store.pack(words, key, threads)?;
            let dropped = {
                let mut known = self.list.known.lock();
                if known.is_empty() {
                    store.lists.add(&self.list);
                }
                let dropped = (known.len() >= MOST).then(|| known.remove(0));
                known.push(PackedMatrix { start, key, block: block.clone() });
                dropped
            };
            drop(dropped);
            Some(block)
        })
    }
}

/// Where the panels of a device come from.
#[derive(Debug)]
pub(super) struct PanelStore {
    pub(super) pool: Arc<Pool>,
    pub(super) lists: Arc<PanelLists>,
}

impl PanelStore {
    /// A matrix in panels; `None` if there is no memory for them.
    fn pack(&self, words: &[u32], key: PanelKey, threads: &Threads) -> Option<Arc<Block>> {
        let len = native::packed_words(key.k, key.n, key.element);
        let bytes = 4 * len as u64;
        let block = Block::owned(self.pool.clone(), self.pool.take_optional(bytes)?, bytes);
        let mut panels = host_memory(&block).ok()?.lock();
        native::pack(&key.matrix(words), key.k, key.n, &mut panels[..len], threads);
        drop(panels);
        Some(block)
    }
}

/// All panels of a device, so that they can be dropped when memory runs out.
#[derive(Debug, Default)]
pub(super) struct PanelLists(Mutex<Vec<Weak<PanelList>>>);

impl PanelLists {
    fn add(&self, list: &Arc<PanelList>) {
        let mut lists = self.0.lock();
        if lists.len() == lists.capacity() {
            lists.retain(|list| list.strong_count() > 0);
        }
        lists.push(Arc::downgrade(list));
    }

    /// Drops all panels that no product is reading.
    pub(super) fn clear(&self) {
        let lists = std::mem::take(&mut *self.0.lock());
        lists.iter().filter_map(Weak::upgrade).for_each(|list| list.clear());
    }
}
