//! Device memory, made and recycled whole.
//!
//! wgpu refuses read-only and read-write use of one buffer in one dispatch even on disjoint ranges, so nothing is ever
//! sub-allocated. Invariants: a buffer in the pool has no work pending (flights pin what they touch until they land), and what is
//! taken either is [`fresh`](Raw::fresh) (zeroed by its maker) or is cleared or overwritten by the taker before anyone can see it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    raw::{BufferId, Raw, Store},
    shelf::{self, Shelf},
    words::Words,
};
use crate::{
    device::Gpu,
    error::{Error, ErrorKind, Result},
    exit,
    metrics::{Count, Counters},
    options::DeviceOptions,
};

/// Everything that a buffer of ours may be asked to do. `INDIRECT` and `UNIFORM` cost nothing measurable once a buffer is pooled.
const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::UNIFORM)
    .union(wgpu::BufferUsages::INDIRECT)
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

/// Who makes the memory.
#[derive(Debug)]
pub(crate) enum Maker {
    Wgpu(Gpu),
    /// Words of the host's own.
    Cpu,
}

/// Told which buffers are about to be freed, so that nothing cached keeps them alive.
type Evict = Box<dyn Fn(&[BufferId]) + Send + Sync>;

pub(crate) struct Pool {
    maker: Maker,
    max_bytes: u64,
    budget: Option<u64>,
    /// Bytes of all buffers made here and not freed yet, idle ones included.
    live: AtomicU64,
    idle: Mutex<Shelf<Raw>>,
    evict: Evict,
    counters: Arc<Counters>,
}

impl Pool {
    /// `max_bytes` is the longest that one piece of memory may be.
    pub(crate) fn new(
        maker: Maker,
        max_bytes: u64,
        options: &DeviceOptions,
        evict: Evict,
        counters: Arc<Counters>,
    ) -> Self {
        let idle = Mutex::new(Shelf::new(options.pool));
        Self { maker, max_bytes, budget: options.memory_budget, live: AtomicU64::new(0), idle, evict, counters }
    }

    /// A buffer of at least `bytes`, the preferred one if it is idle.
    pub(crate) fn take(&self, bytes: u64, preferred: Option<BufferId>) -> Result<Raw> {
        if bytes > self.max_bytes {
            return Err(Error::too_large("bytes in one buffer", bytes, self.max_bytes));
        }
        let class = shelf::class(bytes).min(self.max_bytes);
        if let Some(raw) = self.with_idle(|idle| idle.take(class, |raw| Some(raw.id) == preferred)) {
            self.counters.buffers_recycled.add(1);
            return Ok(self.lend(raw, bytes));
        }
        self.reserve(class)?;
        self.create(class)
            .map(|raw| self.lend(raw, bytes))
            .or_else(|_| {
                // What lies idle may be just what is missing.
                self.trim();
                self.create(class).map(|raw| self.lend(raw, bytes))
            })
            .inspect_err(|_| {
                self.live.fetch_sub(class, Ordering::Relaxed);
            })
    }

    /// Takes a buffer back; nothing may be pending on it.
    pub(crate) fn put(&self, raw: Raw) {
        let bytes = raw.bytes();
        self.counters.pool_bytes_live.sub(bytes);
        self.counters.pool_bytes_wasted.sub(bytes - raw.asked);
        let gone = self.with_idle(|idle| idle.put(bytes, Raw { fresh: false, ..raw }));
        self.free(gone);
    }

    /// Frees all that lies idle.
    pub(crate) fn trim(&self) {
        let gone = self.with_idle(Shelf::drain);
        self.free(gone);
    }

    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle.lock().bytes()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Somebody has it who asked for so many bytes.
    fn lend(&self, raw: Raw, asked: u64) -> Raw {
        let bytes = raw.bytes();
        let live = self.counters.pool_bytes_live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.counters.pool_bytes_peak.fetch_max(live, Ordering::Relaxed);
        self.counters.pool_bytes_wasted.add(bytes - asked);
        Raw { asked, ..raw }
    }

    /// Changes what lies idle.
    fn with_idle<R>(&self, change: impl FnOnce(&mut Shelf<Raw>) -> R) -> R {
        let mut idle = self.idle.lock();
        let outcome = change(&mut idle);
        self.counters.pool_bytes_idle.store(idle.bytes(), Ordering::Relaxed);
        outcome
    }

    fn free(&self, gone: Vec<Raw>) {
        if gone.is_empty() {
            return;
        }
        let _inside = matches!(self.maker, Maker::Wgpu(_)).then(exit::enter);
        let ids: Vec<_> = gone.iter().map(|raw| raw.id).collect();
        (self.evict)(&ids);
        self.live.fetch_sub(gone.iter().map(Raw::bytes).sum(), Ordering::Relaxed);
        // Before the thread leaves the driver.
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

    fn create(&self, class: u64) -> Result<Raw> {
        let store = match &self.maker {
            Maker::Wgpu(gpu) => Store::Wgpu(make(gpu, class)?),
            Maker::Cpu => Store::Cpu(Words::new(class)?),
        };
        self.counters.buffers_created.add(1);
        Ok(Raw::fresh(store))
    }
}

fn make(gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
    let scopes = gpu.scopes();
    let buffer = gpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("sortie"),
        size: bytes,
        usage: USAGE,
        mapped_at_creation: false,
    });
    scopes.pop(|| format!("a buffer of {bytes} bytes"), bytes)?;
    Ok(buffer)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("live", &self.live_bytes())
            .field("idle", &self.idle_bytes())
            .finish_non_exhaustive()
    }
}
