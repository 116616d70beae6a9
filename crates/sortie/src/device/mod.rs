//! Where work runs: opening, listing, importing, and what all parts of one device share.
//!
//! A [`Device`] is a handle; buffers, kernels and flights keep what they need of it alive, so handles may be dropped in any order
//! while work is under way. On a foreign device ([`Device::from_wgpu`]) we are a guest: no handlers are installed, errors are caught
//! by scopes on the calling thread, and other submissions may interleave.

mod adapter;
mod adapter_info;
mod buffer;
mod cache_file;
mod kernels;
mod notice;
mod pipelines;
#[cfg_attr(not(target_os = "linux"), path = "no_quiet.rs")]
mod quiet;
mod recorder;
mod scopes;
mod signal;
mod submitters;
#[cfg_attr(any(target_vendor = "apple", target_family = "wasm"), path = "no_timeline.rs")]
mod timeline;
mod watch;

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use self::adapter::{Found, Opened};
pub use self::buffer::{Buffer, Slice};
pub(crate) use self::{
    pipelines::PipelineCache,
    recorder::Recorder,
    scopes::{Gpu, Polled},
    signal::Signal,
    submitters::Submitters,
    timeline::{DriverLost, Timeline},
};
use crate::{
    backend::{
        cpu::{CpuCompiler, CpuQueue, HostMemorySource},
        wgpu::{ImportTable, Rules, Staging, WgpuCompiler, WgpuMemorySource, WgpuQueue},
    },
    clock::Clock,
    encode::{Executor, GroupCache},
    error::{Error, ErrorKind, Result},
    exit::{self, EnterOnDrop, Inside, LeaveOnDrop, Loading},
    info::{DeviceInfo, DeviceKind, Limits},
    kernel::KernelCache,
    lost::Lost,
    memory::{BufferId, MemorySource, Pool, RawBuffer},
    metrics::{Counters, Metrics},
    options::{DeviceOptions, TuningFile},
    policy::{Costs, Split, SubmitPolicy},
    profile::Notes,
    submit::{Driver, OneThread, Submitter, TwoThreads},
    tuning::Tuning,
};

/// Where work runs: a GPU or a software driver, through wgpu, or the built-in CPU. Cheap to clone, usable from any thread.
///
/// The only file that it writes without being asked is the driver's pipeline cache ([`DeviceOptions::cache`]). It measures only in [`Device::tune`].
///
/// ```
/// let device = sortie::Device::open()?; // the best GPU, else the built-in CPU; or what SORTIE_DEVICE names
/// println!("running on {}", device.info());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

/// All that the handles of one device share.
pub(crate) struct Shared {
    _entering: EnterOnDrop,
    id: u64,
    info: DeviceInfo,
    options: DeviceOptions,
    /// `None` for the built-in CPU.
    link: Option<Link>,
    pool: Arc<Pool>,
    kernels: Arc<KernelCache>,
    executor: Executor,
    submitter: Submitters,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    tuning: Tuning,
    policy: SubmitPolicy,
    costs: Arc<Costs>,
    /// Who watches it.
    notes: Arc<Notes>,
    /// Records native replays anew.
    recorder: Recorder,
    _leaving: LeaveOnDrop,
}

/// The wgpu side of a device.
struct Link {
    gpu: Gpu,
    queue: wgpu::Queue,
    compiler: Arc<WgpuCompiler>,
    imports: Arc<ImportTable>,
    /// The first buffer that was made: wgpu frees the buffers of a destroyed device in the order in which they were made. While this one is held, none of them goes.
    first: wgpu::Buffer,
}

impl Device {
    /// Opens the best hardware that there is and that opens, else the built-in CPU; or the device that `SORTIE_DEVICE` names (any part of its name, or its
    /// index in [`Device::list`]). A software driver is opened only by name.
    ///
    /// ```
    /// let device = sortie::Device::open()?;
    /// println!("running on {}", device.info());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice) when `SORTIE_DEVICE` names none, saying what there is, or one that does not open.
    pub fn open() -> Result<Self> {
        Self::open_with(DeviceOptions::default())
    }

    /// Opens a device as the options say.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice), saying what was looked for and what there is; [`Unsupported`](ErrorKind::Unsupported) for
    /// options that the device cannot honour.
    pub fn open_with(options: DeviceOptions) -> Result<Self> {
        let _inside = exit::enter();
        match adapter::open(&options)? {
            Found::Wgpu(opened) => {
                let device = Self::build(*opened, options, false)?;
                if device.info().kind == DeviceKind::Software {
                    notice::slow(device.info());
                }
                Ok(device)
            }
            Found::Cpu { instead } => {
                let device = Self::cpu_with(options)?;
                if instead {
                    notice::no_hardware(device.info());
                }
                Ok(device)
            }
        }
    }

    /// The built-in CPU: WGSL kernels run by this crate itself, on this machine's cores. There everywhere, without a driver.
    ///
    /// ```
    /// let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// let mut batch = device.batch();
    /// batch.copy(x.slice(..2), x.slice(1..));
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [1, 1, 2]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Internal`](ErrorKind::Internal) when the system starts no more threads.
    pub fn cpu() -> Result<Self> {
        Self::cpu_with(DeviceOptions::default())
    }

    /// As [`Device::cpu`], with options; [`DeviceOptions::device`] and `SORTIE_DEVICE` have no say.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie::{Device, DeviceOptions};
    ///
    /// let budget = Some(Duration::from_secs(1));
    /// let device = Device::cpu_with(DeviceOptions { threads: Some(1), kernel_budget: budget, ..Default::default() })?;
    /// assert_eq!(device.info().name, "sortie CPU (1 thread)");
    /// assert!(device.wgpu().is_none());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::cpu`].
    pub fn cpu_with(options: DeviceOptions) -> Result<Self> {
        Self::cpu_driven(options, Box::<OneThread>::default())
    }

    /// The built-in CPU with a driver of its own.
    pub(crate) fn cpu_driven(options: DeviceOptions, driver: Box<dyn Driver>) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let (executor, threads) = Executor::cpu(&options, counters.clone())?;
        let info = held_to(DeviceInfo::cpu(threads), &options);
        let pool = pool(Arc::new(HostMemorySource), &info, &options, &counters);
        let lost = Arc::new(Lost::default());
        let tuning = Tuning::new(&options.tuning, &info);
        if let (Some(cpu), Some(library)) = (executor.as_cpu(), tuning.library()) {
            cpu.use_library(library);
        }
        let policy = options.policy.or(tuning.policy()).unwrap_or_else(|| default_policy(info.kind));
        let costs = Arc::new(Costs::new(guess(info.kind)));
        let submitter = Submitter::start(
            CpuQueue::new(counters.clone()),
            driver,
            policy.in_flight,
            lost.clone(),
            counters.clone(),
            (costs.clone(), Clock::Wall),
            options.memory_budget,
        )?;
        let id = next_id();
        let compiler = CpuCompiler { limits: info.limits, portable: options.portable, counters: counters.clone() };
        let kernels = Arc::new(KernelCache::new(id, info.limits, Arc::new(compiler), counters.clone()));
        let device = Self::share(Shared {
            _entering: EnterOnDrop(false),
            id,
            info,
            options,
            link: None,
            pool,
            kernels,
            executor,
            submitter: Submitters::Cpu(submitter),
            lost,
            counters,
            tuning,
            policy,
            costs,
            notes: Arc::default(),
            recorder: Recorder::default(),
            _leaving: LeaveOnDrop(false),
        });
        device.opened();
        Ok(device)
    }

    /// All devices that can compute, the best first: hardware, the built-in CPU, software drivers. Their index works as `SORTIE_DEVICE`.
    ///
    /// ```
    /// use sortie::{Device, DeviceKind};
    ///
    /// let devices = Device::list();
    /// for (index, info) in devices.iter().enumerate() {
    ///     println!("{index}: {info}");
    /// }
    /// assert!(devices.iter().any(|info| info.kind == DeviceKind::Cpu)); // it is always there
    /// ```
    #[must_use]
    pub fn list() -> Vec<DeviceInfo> {
        let _inside = exit::enter();
        adapter::list()
    }

    /// Works as a guest on a wgpu device that somebody else owns: no handlers are installed, and only the features it was
    /// opened with are used.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions};
    ///
    /// # let owner = Device::open_with(DeviceOptions { device: Some("noop".into()), ..Default::default() })?;
    /// # let (gpu, queue) = owner.wgpu().expect("it is wgpu's");
    /// let device = Device::from_wgpu(gpu.clone(), queue.clone())?; // of a renderer, say
    /// let x = device.upload(&[1.0_f32; 64])?;
    /// # assert_eq!(x.len(), 64);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when its limits are too small for our own kernels, or when our threads cannot be started;
    /// [`Unsupported`](ErrorKind::Unsupported) for options that only the built-in CPU can honour.
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue) -> Result<Self> {
        Self::from_wgpu_with(device, queue, DeviceOptions::default())
    }

    /// As [`Device::from_wgpu`], with options.
    ///
    /// # Errors
    /// As [`Device::from_wgpu`].
    pub fn from_wgpu_with(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Result<Self> {
        let _inside = exit::enter();
        let info = adapter_info::describe(&device.adapter_info(), &device.limits(), device.features());
        // What wgpu refuses beyond this it refuses when the kernel is compiled.
        let downlevel = wgpu::DownlevelFlags::compliant();
        Self::build(Opened { device, queue, info, downlevel }, options, true)
    }

    /// Opens the same adapter afresh, after a loss. Buffers and kernels of the lost device stay with it.
    ///
    /// ```
    /// use sortie::{Device, ErrorKind};
    ///
    /// /// Runs something once more on a device opened afresh, should the first have been lost.
    /// fn run<T>(device: &mut Device, work: impl Fn(&Device) -> sortie::Result<T>) -> sortie::Result<T> {
    ///     match work(device) {
    ///         Err(error) if error.kind() == &ErrorKind::DeviceLost => {
    ///             *device = device.reopen()?;
    ///             work(device) // makes its buffers and kernels again
    ///         }
    ///         result => result,
    ///     }
    /// }
    /// let mut device = Device::cpu()?;
    /// assert_eq!(run(&mut device, |device| device.upload(&[1_u32])?.download())?, [1]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a guest, whose device is not ours to open, else as [`Device::open_with`].
    pub fn reopen(&self) -> Result<Self> {
        let _inside = exit::enter();
        let Some(link) = &self.shared.link else { return Self::cpu_with(self.shared.options.clone()) };
        if link.gpu.guest() {
            let message =
                "a device that was passed in cannot be reopened: open it again and pass it to Device::from_wgpu";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let options = self.shared.options.clone();
        Self::build(adapter::reopen(&self.shared.info, &options)?, options, false)
    }

    /// Name, driver and limits.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// The wgpu device and queue behind it; `None` on a device that is not wgpu's.
    ///
    /// From the first call on, replays that could have gone to the driver's queue themselves go through wgpu: others may be using the queue.
    ///
    /// An error scope that is open on a thread while it calls into this crate catches this crate's errors too: pop it first.
    #[must_use]
    pub fn wgpu(&self) -> Option<(&wgpu::Device, &wgpu::Queue)> {
        let link = self.shared.link.as_ref()?;
        self.shared.submitter.share_queue();
        Some((&*link.gpu, &link.queue))
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        // Writes that the device has taken since are not staged any more.
        self.shared.submitter.staged_bytes();
        self.shared.counters.snapshot(self.shared.policy)
    }

    /// How it is given its work: what [`DeviceOptions::policy`] or the tuning file said, or the [default](SubmitPolicy).
    #[must_use]
    pub fn policy(&self) -> SubmitPolicy {
        self.shared.policy
    }

    /// Frees all device memory that lies idle in the pools.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// drop(device.zeros::<f32>(1_000_000)?); // lies in the pool, for the next of its size
    /// device.trim();
    /// assert_eq!(device.memory_bytes(), 0);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn trim(&self) {
        let _inside = self.shared.enter();
        self.shared.submitter.flush();
        self.shared.pool.trim();
        self.shared.executor.trim();
        self.shared.counters.publish();
    }

    /// The file in which it keeps compiled pipelines, there or not yet; `None` where there is none: on the built-in CPU, on backends other than Vulkan, for a guest, and
    /// when [`DeviceOptions::cache`] or `SORTIE_CACHE` says `off`.
    #[must_use]
    pub fn cache_file(&self) -> Option<&Path> {
        self.shared.pipeline_cache().map(PipelineCache::path)
    }

    /// Writes the pipelines compiled so far to [`Device::cache_file`] and says how many bytes the driver gave. It is also done when the last handle goes, and now and
    /// then as kernels are compiled: a process that ends without letting go of its device has written more than half of them, once there are eight.
    ///
    /// ```
    /// # let device = sortie::Device::open()?;
    /// let kernel = device.kernel("@compute @workgroup_size(1) fn main() {}")?;
    /// if device.cache_file().is_some() {
    ///     device.save_cache()?;
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where there is no such file; [`File`](ErrorKind::File) when it cannot be written, or would not be private.
    pub fn save_cache(&self) -> Result<u64> {
        self.shared.lost.check()?;
        let Some(pipelines) = self.shared.pipeline_cache() else {
            return Err(Error::new(ErrorKind::Unsupported, format!("{} keeps no compiled pipelines", self.info())));
        };
        pipelines.save().map_err(|error| {
            let message = format!("the pipeline cache {} cannot be written", pipelines.path().display());
            Error::new(ErrorKind::File, message).caused_by(error)
        })
    }

    /// Bytes of device memory taken: in use, idle in the pool, or holding writes that the device has not taken yet. [`DeviceOptions::memory_budget`] bounds them.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shared.pool.live_bytes() + self.shared.submitter.staged_bytes()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn build(opened: Opened, options: DeviceOptions, guest: bool) -> Result<Self> {
        if options.check_races {
            let message = format!("{info} cannot check for races: open the built-in CPU for that", info = opened.info);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let _loading = Loading::begin();
        let Opened { device, queue, info, downlevel } = opened;
        let info = held_to(info, &options);
        let lost = Arc::new(Lost::default());
        let gpu = if guest { Gpu::visit(device) } else { own(device, &lost) };
        let first = gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie first"),
            size: 4,
            usage: wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let counters = Arc::new(Counters::default());
        let groups = Arc::new(GroupCache::new(counters.clone()));
        let imports = Arc::new(ImportTable::new(groups.clone()));
        let pool = pool(Arc::new(WgpuMemorySource::new(gpu.clone(), groups.clone())), &info, &options, &counters);
        let staging =
            Arc::new(Staging::new(gpu.clone(), lost.clone(), info.limits.buffer_bytes, options.pool, counters.clone()));
        // A guest has no files: how the queue is used, and what is compiled, is its host's to decide and to keep.
        let tuning = Tuning::new(if guest { &TuningFile::Off } else { &options.tuning }, &info);
        let policy = options.policy.or(tuning.policy()).unwrap_or_else(|| default_policy(info.kind));
        let costs = Arc::new(Costs::new(guess(info.kind)));
        let clock = if info.kind == DeviceKind::Software { Clock::Process } else { Clock::Wall };
        let submitter = Submitter::start(
            WgpuQueue::new(gpu.clone(), queue.clone(), lost.clone(), counters.clone(), clock),
            Box::new(TwoThreads),
            policy.in_flight,
            lost.clone(),
            counters.clone(),
            (costs.clone(), clock),
            options.memory_budget,
        )?;
        let id = next_id();
        let pipelines = if guest { None } else { PipelineCache::open(&gpu, &options.cache, counters.clone()) };
        let rules = Rules {
            limits: info.limits,
            features: kernel_features(&gpu, &options),
            downlevel,
            native_immediates: options.native_immediates && info.limits.immediate_bytes > 0,
            software: info.kind == DeviceKind::Software,
            budget: options.compile_budget,
        };
        let compiler = Arc::new(WgpuCompiler::new(gpu.clone(), pipelines, rules, counters.clone()));
        let kernels = Arc::new(KernelCache::new(id, info.limits, compiler.clone(), counters.clone()));
        let executor = Executor::wgpu(gpu.clone(), compiler.clone(), groups, staging, counters.clone());
        let device = Self::share(Shared {
            _entering: EnterOnDrop(true),
            id,
            info,
            options,
            link: Some(Link { gpu, queue, compiler, imports, first }),
            pool,
            kernels,
            executor,
            submitter: Submitters::Wgpu(submitter),
            lost,
            counters,
            tuning,
            policy,
            costs,
            notes: Arc::default(),
            recorder: Recorder::default(),
            _leaving: LeaveOnDrop(true),
        });
        // Ready before anything is recorded: recording never fails and never touches the device.
        device.shared.executor.fill_kernel(&device.shared)?;
        device.opened();
        Ok(device)
    }

    /// All is there: whoever listens hears of it.
    fn opened(&self) {
        let DeviceInfo { name, kind, backend, driver, .. } = self.info();
        tracing::info!(target: "sortie", name, ?kind, backend, driver, "a device is open");
        self.shared.counters.publish_as(name);
    }

    fn share(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

/// The device with the limits that its options hold it to.
fn held_to(info: DeviceInfo, options: &DeviceOptions) -> DeviceInfo {
    if options.portable { info.portable() } else { info }
}

/// The policy of a device for which nothing else is said. The built-in CPU has no watchdog: a batch that is cut only takes longer there.
pub(crate) fn default_policy(kind: DeviceKind) -> SubmitPolicy {
    match kind {
        DeviceKind::Cpu => SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() },
        _ => SubmitPolicy::default(),
    }
}

/// Nanoseconds that a workgroup of a kernel takes of which nothing is known. Low rather than high: a batch is cut for what is known about it.
fn guess(kind: DeviceKind) -> f64 {
    match kind {
        DeviceKind::Noop => 0.0,
        DeviceKind::Cpu | DeviceKind::Software => 64.0,
        _ => 1.0,
    }
}

/// The features that kernels may use. A guest's device may have more than it is held to.
fn kernel_features(gpu: &Gpu, options: &DeviceOptions) -> wgpu::Features {
    let all = gpu.features();
    if options.portable { all.difference(adapter::OPTIONAL) } else { all }
}

/// The pool of a device whose memory comes from `source`.
fn pool(
    source: Arc<dyn MemorySource>,
    info: &DeviceInfo,
    options: &DeviceOptions,
    counters: &Arc<Counters>,
) -> Arc<Pool> {
    let max_bytes = info.limits.buffer_bytes;
    Arc::new(Pool::new(source, max_bytes, options.pool, options.memory_budget, counters.clone()))
}

/// The number of a device, never given twice in a process.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Our own handlers: wgpu's default one panics, and a loss must reach our flag.
fn own(device: wgpu::Device, lost: &Arc<Lost>) -> Gpu {
    let flag = lost.clone();
    device.set_device_lost_callback(move |reason, message| flag.set(format!("{reason:?} {message}").trim()));
    Gpu::watch(device)
}

impl Shared {
    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    pub(crate) fn policy(&self) -> SubmitPolicy {
        self.policy
    }

    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(crate) fn notes(&self) -> &Arc<Notes> {
        &self.notes
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.info.limits
    }

    pub(crate) fn options(&self) -> &DeviceOptions {
        &self.options
    }

    pub(crate) fn kind(&self) -> DeviceKind {
        self.info.kind
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.link.is_none()
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.link().gpu
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.link().queue
    }

    /// The buffer that goes first when the device is destroyed.
    pub(crate) fn first_buffer(&self) -> &wgpu::Buffer {
        &self.link().first
    }

    /// What compiles its kernels, on a wgpu device.
    pub(crate) fn compiler(&self) -> &WgpuCompiler {
        &self.link().compiler
    }

    /// Where pipelines are kept from one process to the next, if anywhere.
    fn pipeline_cache(&self) -> Option<&PipelineCache> {
        self.link.as_ref()?.compiler.cache()
    }

    fn link(&self) -> &Link {
        self.link.as_ref().unwrap_or_else(|| unreachable!("the built-in CPU is never asked for wgpu"))
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Memory out of the pool. Where writes that the device has not taken are in its way, they are submitted first.
    pub(crate) fn take_memory(&self, bytes: u64, preferred: Option<BufferId>) -> Result<RawBuffer> {
        self.pool.take(bytes, preferred).or_else(|error| {
            if !matches!(error.kind(), ErrorKind::OutOfMemory { .. }) {
                return Err(error);
            }
            self.submitter.flush();
            self.pool.take(bytes, preferred)
        })
    }

    /// The calling thread is about to use the driver. Once the process exits this does not return.
    pub(crate) fn enter(&self) -> Option<Inside> {
        self.link.as_ref().map(|_| exit::enter())
    }

    pub(crate) fn kernels(&self) -> &Arc<KernelCache> {
        &self.kernels
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    pub(crate) fn submitter(&self) -> &Submitters {
        &self.submitter
    }

    pub(crate) fn lost(&self) -> &Lost {
        &self.lost
    }

    /// An error that may come of a lost device, told as such.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match &self.link {
            Some(link) => self.lost.explain(&link.gpu, error),
            None => error,
        }
    }

    /// Asks a device that cannot tell us whether it is gone.
    pub(crate) fn probe(&self) {
        if let Some(link) = &self.link {
            self.lost.probe(&link.gpu);
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
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
