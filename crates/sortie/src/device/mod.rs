//! Where work runs: opening, listing, importing, and what all parts of one device share.
//!
//! A [`Device`] is a handle; buffers, kernels and flights keep what they need of it alive, so handles may be dropped in any order
//! while work is under way. On a foreign device ([`Device::from_wgpu`]) we are a guest: no handlers are installed, errors are caught
//! by scopes on the calling thread, and other submissions may interleave.

mod adapter;
mod info;
mod lost;
mod options;
mod scopes;

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use self::adapter::Opened;
pub use self::{
    info::{DeviceInfo, DeviceKind, Limits},
    options::{DeviceOptions, Planning, PoolLimits},
};
pub(crate) use self::{
    lost::{Lost, Polled},
    scopes::Gpu,
};
use crate::{
    encode::{Executor, GroupCache},
    error::{Error, ErrorKind, Result},
    memory::{Block, Pool, Raw, Staging},
    metrics::{Counters, Metrics},
    submit::Submitter,
};

/// Where work runs: a GPU or a software driver, through wgpu. Cheap to clone, usable from any thread.
///
/// ```no_run
/// let device = sortie::Device::open()?; // the best adapter, or what SORTIE_DEVICE names
/// println!("running on {}", device.info());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

/// All that the handles of one device share.
pub(crate) struct Shared {
    id: u64,
    info: DeviceInfo,
    options: DeviceOptions,
    gpu: Gpu,
    queue: wgpu::Queue,
    downlevel: wgpu::DownlevelFlags,
    pool: Pool,
    staging: Arc<Staging>,
    executor: Executor,
    submitter: Arc<Submitter>,
    /// Foreign buffers in use, so that importing one twice gives one block; entries go with their blocks.
    imported: Mutex<FxHashMap<wgpu::Buffer, Weak<Block>>>,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
}

impl Device {
    /// Opens the best device there is, or the one that `SORTIE_DEVICE` names (any part of its name, or its index in
    /// [`Device::list`]). Hardware comes first, a software driver last.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice), saying what was looked for and what to install.
    pub fn open() -> Result<Self> {
        Self::open_with(DeviceOptions::default())
    }

    /// Opens a device as the options say.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice), saying what was looked for and what there is.
    pub fn open_with(options: DeviceOptions) -> Result<Self> {
        let opened = adapter::open(&options)?;
        Self::build(opened, options, false)
    }

    /// All adapters that can compute, the best first. Their index works as `SORTIE_DEVICE`.
    #[must_use]
    pub fn list() -> Vec<DeviceInfo> {
        adapter::list()
    }

    /// Works as a guest on a wgpu device that somebody else owns: no handlers are installed, and only the features it was
    /// opened with are used.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when its limits are too small for our own kernels, or when our threads cannot be started.
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue) -> Result<Self> {
        Self::from_wgpu_with(device, queue, DeviceOptions::default())
    }

    /// As [`Device::from_wgpu`], with options.
    ///
    /// # Errors
    /// As [`Device::from_wgpu`].
    pub fn from_wgpu_with(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Result<Self> {
        let info = DeviceInfo::new(&device.adapter_info(), &device.limits(), device.features());
        // What wgpu refuses beyond this it refuses when the kernel is compiled.
        let downlevel = wgpu::DownlevelFlags::compliant();
        Self::build(Opened { device, queue, info, downlevel }, options, true)
    }

    /// Opens the same adapter afresh, after a loss. Buffers and kernels of the lost device stay with it.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a guest, whose device is not ours to open, else as [`Device::open_with`].
    pub fn reopen(&self) -> Result<Self> {
        if self.shared.gpu.guest() {
            let message =
                "a device that was passed in cannot be reopened: open it again and pass it to Device::from_wgpu";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Self::build(adapter::reopen(&self.shared.info)?, self.shared.options.clone(), false)
    }

    /// Name, driver and limits.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// The wgpu device and queue behind it; `None` on a device that is not wgpu's.
    ///
    /// An error scope that is open on a thread while it calls into this crate catches this crate's errors too: pop it first.
    #[must_use]
    pub fn wgpu(&self) -> Option<(&wgpu::Device, &wgpu::Queue)> {
        Some((&self.shared.gpu, &self.shared.queue))
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.counters.snapshot()
    }

    /// Frees all device memory that lies idle in the pools.
    pub fn trim(&self) {
        self.shared.pool.trim();
        self.shared.staging.trim();
    }

    /// Bytes of device memory taken, in use or idle.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shared.pool.live_bytes()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn build(opened: Opened, options: DeviceOptions, guest: bool) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Opened { device, queue, info, downlevel } = opened;
        let lost = Arc::new(Lost::default());
        let gpu = if guest { Gpu::visit(device) } else { own(device, &lost) };
        let counters = Arc::new(Counters::default());
        let groups = Arc::new(GroupCache::new(counters.clone()));
        let pool = {
            let groups = groups.clone();
            let evict = Box::new(move |ids: &[_]| groups.evict(ids));
            Pool::new(gpu.clone(), options.pool, options.memory_budget, evict, counters.clone())
        };
        let staging = Arc::new(Staging::new(gpu.clone(), lost.clone(), options.pool, counters.clone()));
        let submitter =
            Submitter::start(gpu.clone(), queue.clone(), options.in_flight, lost.clone(), counters.clone())?;
        let executor = Executor::wgpu(gpu.clone(), groups, staging.clone(), counters.clone());
        let shared = Shared {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            info,
            options,
            gpu,
            queue,
            downlevel,
            pool,
            staging,
            executor,
            submitter,
            imported: Mutex::default(),
            lost,
            counters,
        };
        let shared = Arc::new(shared);
        // Ready before anything is recorded: recording never fails and never touches the device.
        shared.executor.fill_kernel(&shared)?;
        Ok(Self { shared })
    }
}

/// Our own handlers: wgpu's default one panics, and a loss must reach our flag.
fn own(device: wgpu::Device, lost: &Arc<Lost>) -> Gpu {
    let flag = lost.clone();
    device.set_device_lost_callback(move |reason, message| flag.set(format!("{reason:?} {message}").trim()));
    Gpu::watch(device)
}

impl Shared {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.info.limits
    }

    pub(crate) fn options(&self) -> &DeviceOptions {
        &self.options
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    pub(crate) fn downlevel(&self) -> wgpu::DownlevelFlags {
        self.downlevel
    }

    /// Whether `var<immediate>` stays what it is.
    pub(crate) fn native_immediates(&self) -> bool {
        self.options.native_immediates && self.info.limits.immediate_bytes > 0
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    pub(crate) fn submitter(&self) -> &Submitter {
        &self.submitter
    }

    pub(crate) fn lost(&self) -> &Lost {
        &self.lost
    }

    /// An error that may come of a lost device, told as such.
    pub(crate) fn explain(&self, error: Error) -> Error {
        self.lost.explain(&self.gpu, error)
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The block of a foreign buffer, the same one however often it is imported: hazards are found by block.
    pub(crate) fn import(self: &Arc<Self>, buffer: wgpu::Buffer) -> Arc<Block> {
        let mut imported = self.imported.lock();
        if let Some(block) = imported.get(&buffer).and_then(Weak::upgrade) {
            return block;
        }
        let block = Block::imported(self.clone(), buffer.clone());
        imported.insert(buffer, Arc::downgrade(&block));
        block
    }

    /// The last handle of an imported block is gone.
    pub(crate) fn forget_imported(&self, raw: &Raw) {
        self.executor.evict(&[raw.id]);
        let mut imported = self.imported.lock();
        // It may have been imported anew meanwhile.
        if imported.get(&raw.buffer).is_some_and(|block| block.strong_count() == 0) {
            imported.remove(&raw.buffer);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.submitter.close();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("info", &self.shared.info.to_string()).finish_non_exhaustive()
    }
}
