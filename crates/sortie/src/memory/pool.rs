//! Allocates device buffers and recycles them whole.
//!
//! wgpu refuses read-only and read-write use of one buffer in one dispatch even on disjoint ranges, so nothing is ever
//! sub-allocated. Invariants: a buffer in the pool has no work pending, because submissions pin their buffers until
//! they are done. A buffer from the pool is either [`fresh`](RawBuffer::fresh) (zeroed by its source), or its taker
//! clears or overwrites it before anything can read it.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::{
    block::Home,
    free_list::{self, FreeList},
    raw_buffer::{BufferId, MemorySource, RawBuffer},
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::{AtomicCounter, Counters},
    options::PoolLimits,
};

#[derive(derive_more::Debug)]
#[debug("Pool {{ live: {}, idle: {}, .. }}", self.live_bytes(), self.idle_bytes())]
pub(crate) struct Pool {
    source: Arc<dyn MemorySource>,
    max_bytes: u64,
    budget: Option<u64>,
    /// Bytes of all buffers created here and not freed yet, idle ones included.
    live: AtomicU64,
    idle: Mutex<FreeList<RawBuffer>>,
    /// Holds memory that it can do without.
    reclaim: OnceLock<Weak<dyn Reclaim>>,
    counters: Arc<Counters>,
}

/// Frees memory when it runs out.
pub(crate) trait Reclaim: Send + Sync {
    /// Returns memory to its pool. The caller holds no lock.
    fn reclaim(&self);
}

impl Pool {
    /// `max_bytes` limits one buffer; `budget` limits the sum of all buffers.
    pub(crate) fn new(
        source: Arc<dyn MemorySource>,
        max_bytes: u64,
        limits: PoolLimits,
        budget: Option<u64>,
        counters: Arc<Counters>,
    ) -> Self {
        let idle = Mutex::new(FreeList::new(limits));
        Self { source, max_bytes, budget, live: AtomicU64::new(0), idle, reclaim: OnceLock::new(), counters }
    }

    /// As [`Pool::take`], but if memory runs out, calls `flush` to submit staged writes and tries again.
    pub(crate) fn take_flushing(
        &self,
        bytes: u64,
        preferred: Option<BufferId>,
        flush: impl FnOnce(),
    ) -> Result<RawBuffer> {
        self.take(bytes, preferred).or_else(|error| {
            if !matches!(error.kind(), ErrorKind::OutOfMemory { .. }) {
                return Err(error);
            }
            flush();
            self.take(bytes, preferred)
        })
    }

    /// A buffer of at least `bytes`, the preferred one if it is idle.
    pub(crate) fn take(&self, bytes: u64, preferred: Option<BufferId>) -> Result<RawBuffer> {
        if bytes > self.max_bytes {
            return Err(Error::too_large("bytes in one buffer", bytes, self.max_bytes));
        }
        let class = free_list::class(bytes).min(self.max_bytes);
        if let Some(raw) = self.with_idle(|idle| idle.take(class, |raw| Some(raw.id) == preferred)) {
            self.counters.buffers_recycled.add(1);
            return Ok(self.lend(raw, bytes));
        }
        self.reserve(class)?;
        self.create(class)
            .map(|raw| self.lend(raw, bytes))
            .or_else(|_| {
                // Freeing idle buffers may help.
                self.trim();
                self.create(class).map(|raw| self.lend(raw, bytes))
            })
            .inspect_err(|_| {
                self.live.fetch_sub(class, Ordering::Relaxed);
            })
    }

    /// Calls `reclaim` when memory runs out. Set once.
    pub(crate) fn set_reclaim(&self, reclaim: Weak<dyn Reclaim>) {
        drop(self.reclaim.set(reclaim));
    }

    /// Frees all idle buffers, and what can be done without.
    pub(crate) fn trim(&self) {
        if let Some(reclaim) = self.reclaim.get().and_then(Weak::upgrade) {
            reclaim.reclaim();
        }
        let gone = self.with_idle(FreeList::drain);
        self.free(gone);
    }

    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle.lock().bytes
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Counts a buffer as in use by a caller that asked for `asked` bytes.
    fn lend(&self, raw: RawBuffer, asked: u64) -> RawBuffer {
        let bytes = raw.bytes;
        let live = self.counters.pool_bytes_live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.counters.pool_bytes_peak.fetch_max(live, Ordering::Relaxed);
        self.counters.pool_bytes_wasted.add(bytes - asked);
        RawBuffer { asked, ..raw }
    }

    /// Changes the free list and updates its counter.
    fn with_idle<R>(&self, change: impl FnOnce(&mut FreeList<RawBuffer>) -> R) -> R {
        let mut idle = self.idle.lock();
        let outcome = change(&mut idle);
        self.counters.pool_bytes_idle.store(idle.bytes, Ordering::Relaxed);
        outcome
    }

    fn free(&self, gone: Vec<RawBuffer>) {
        if gone.is_empty() {
            return;
        }
        let ids: Vec<_> = gone.iter().map(|raw| raw.id).collect();
        self.source.freeing(&ids);
        self.live.fetch_sub(gone.iter().map(|raw| raw.bytes).sum(), Ordering::Relaxed);
        drop(gone);
    }

    fn reserve(&self, class: u64) -> Result<()> {
        let Some(budget) = self.budget else {
            self.live.fetch_add(class, Ordering::Relaxed);
            return Ok(());
        };
        let staged = self.counters.staged_bytes.load(Ordering::Relaxed);
        let fits = |live: u64| {
            let total = live.checked_add(class)?;
            (total.saturating_add(staged) <= budget).then_some(total)
        };
        if self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok() {
            return Ok(());
        }
        self.trim();
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map(|_| ()).map_err(|live| {
            Error::new(
                ErrorKind::OutOfMemory { wanted: class, budget },
                format!("{class} bytes more than the {live} in use would pass the memory budget of {budget} bytes"),
            )
        })
    }

    fn create(&self, class: u64) -> Result<RawBuffer> {
        let memory = self.source.create(class)?;
        self.counters.buffers_created.add(1);
        Ok(RawBuffer::fresh(memory, class))
    }
}

impl Home for Pool {
    fn release(&self, raw: RawBuffer) {
        let bytes = raw.bytes;
        self.counters.pool_bytes_live.sub(bytes);
        self.counters.pool_bytes_wasted.sub(bytes - raw.asked);
        let gone = self.with_idle(|idle| idle.put(bytes, RawBuffer { fresh: false, ..raw }));
        self.free(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Block, DeviceMemory};

    /// Memory that counts its live instances.
    #[derive(Debug)]
    struct Counted(Arc<Mutex<Seen>>);

    #[derive(Debug, Default)]
    struct Seen {
        alive: usize,
        /// The ids in each `freeing` call, and how many instances were alive then.
        freeing: Vec<(Vec<BufferId>, usize)>,
    }

    impl DeviceMemory for Counted {}

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.lock().alive -= 1;
        }
    }

    #[derive(Debug, Default)]
    struct Source(Arc<Mutex<Seen>>);

    impl MemorySource for Source {
        fn create(&self, _bytes: u64) -> Result<Box<dyn DeviceMemory>> {
            self.0.lock().alive += 1;
            Ok(Box::new(Counted(self.0.clone())))
        }

        fn freeing(&self, ids: &[BufferId]) {
            let mut seen = self.0.lock();
            let alive = seen.alive;
            seen.freeing.push((ids.to_vec(), alive));
        }
    }

    #[test]
    fn a_dropped_block_returns_its_memory_to_the_pool_until_the_source_frees_it() -> Result<()> {
        let source = Source::default();
        let seen = source.0.clone();
        let pool = Arc::new(Pool::new(Arc::new(source), 1 << 20, PoolLimits::default(), None, Arc::default()));
        let block = Block::owned(pool.clone(), pool.take(100, None)?, 100);
        let id = block.id();
        assert!(block.fresh() && block.memory::<Counted>().is_some());
        drop(block);
        let again = Block::owned(pool.clone(), pool.take(100, None)?, 100);
        assert_eq!((again.id(), again.fresh(), pool.live_bytes()), (id, false, 256));
        drop(again);
        assert_eq!((seen.lock().alive, pool.idle_bytes()), (1, 256));
        pool.trim();
        let seen = seen.lock();
        assert_eq!((&seen.freeing, seen.alive, pool.live_bytes()), (&vec![(vec![id], 1)], 0, 0));
        Ok(())
    }
}
