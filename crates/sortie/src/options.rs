//! Options for opening a device, and the paths of its files.

use std::{env, path::PathBuf, time::Duration};

use etcetera::BaseStrategy;

use crate::policy::SubmitPolicy;

/// Which device to open, and its settings. The defaults suit most programs.
///
/// ```
/// use sortie::{Device, DeviceOptions};
///
/// let device = Device::open_with(DeviceOptions::default().with_device("noop"))?;
/// assert_eq!(device.info().backend, "noop");
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The device to open: its name (any part of it, in any case) or its index in
    /// [`Device::list`](crate::Device::list). `"cpu"` is the built-in CPU, `"noop"` is wgpu's device that checks
    /// everything and runs nothing. `None`: the value of `SORTIE_DEVICE`, else the best hardware, else the built-in
    /// CPU.
    pub device: Option<String>,
    /// How batches are cut into submissions, and how many of these are in flight at once. `None`: the policy in the
    /// tuning file, if `sortie tune` found one that suits the device better than [the default](SubmitPolicy).
    pub policy: Option<SubmitPolicy>,
    /// Most bytes of device memory for all buffers of this device; `None`: no limit.
    pub memory_budget: Option<u64>,
    /// Limits on idle buffers in the buffer pool.
    pub pool: PoolLimits,
    /// Which planning steps are on.
    pub planning: Planning,
    /// The file with tuning measurements. It is only read when a device is opened.
    /// [`MatmulReport::save`](crate::tune::MatmulReport::save) and [`TuneReport::save`](crate::tune::TuneReport::save) write it,
    /// and so does `sortie tune`.
    pub tuning: TuningFile,
    /// Where compiled pipelines are kept, on Vulkan: the only file that is written without a request. [`CacheDir::Off`]
    /// switches it off.
    pub cache: CacheDir,
    /// Pass immediates natively if the device can. If off, they go through a parameter buffer, as on other devices.
    pub native_immediates: bool,
    /// On Vulkan, record replays once for the device itself. If off, and on other backends, every run is encoded again.
    /// The results are the same.
    pub native_replay: bool,
    /// On Vulkan, record a batch once for the device when the same operations come again with the same buffers, and
    /// submit that recording from then on. If off, every batch is encoded. The results are the same. Needs
    /// [`native_replay`](Self::native_replay).
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions};
    ///
    /// let device = Device::open_with(DeviceOptions::default().with_auto_replay(false))?;
    /// # let _ = device;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub auto_replay: bool,
    /// For debugging: run each replay as a batch before its first run, undo that, and compare. The first run fails with
    /// [`Internal`](crate::ErrorKind::Internal) if both do not leave the same data in memory. It waits for the device.
    /// A recording whose result depends on memory that cannot be read and restored (imported without `COPY_SRC` and
    /// `COPY_DST`) fails wrongly.
    pub check_replays: bool,
    /// The longest time for parsing, checking and compiling a kernel, before the caller gets
    /// [`Timeout`](crate::ErrorKind::Timeout). The compilation itself cannot be stopped and continues in the
    /// background. While two of them do, no kernel is compiled ([`Overloaded`](crate::ErrorKind::Overloaded)). Some
    /// drivers compile when a kernel first runs: that time does not count.
    pub compile_budget: Duration,
    /// Restricts every device to the features and limits of all WebGPU devices: the default limits and alignments (8
    /// storage buffers, bindings of 128 MiB that start at multiples of 256 bytes, workgroups of 256 invocations and 16
    /// KiB, …), and no optional feature of WGSL (`f16`, 64-bit numbers, subgroups). A use beyond them is refused with
    /// the same kind of error on the built-in CPU as on GPUs: a program that is tested with it there runs elsewhere.
    /// The default is true if the environment has `SORTIE_PORTABLE=1`.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions, ErrorKind, Grid};
    ///
    /// let device = Device::cpu_with(DeviceOptions::default().with_portable(true))?;
    /// let kernel = device.kernel("
    ///     @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += 1; }
    /// ")?;
    /// let x = device.zeros::<u32>(100)?;
    /// let batch = device.batch();
    /// batch.dispatch(&kernel, &[&x.slice(64..)], Grid::items(36)); // at byte 256
    /// batch.submit()?;
    /// let batch = device.batch();
    /// batch.dispatch(&kernel, &[&x.slice(1..)], Grid::items(99)); // at byte 4, which the built-in CPU could do
    /// assert_eq!(batch.submit().unwrap_err().kind(), ErrorKind::Bindings);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub portable: bool,
    /// Built-in CPU: threads that work on one large kernel, including the one that runs it. `None`: one per core. With
    /// 1, the order of atomic operations is the same in every run.
    pub threads: Option<usize>,
    /// Built-in CPU: the longest that one dispatch may run before it is stopped with
    /// [`Timeout`](crate::ErrorKind::Timeout). `None`: no limit. Other devices have their own watchdog and ignore this.
    pub kernel_budget: Option<Duration>,
    /// Built-in CPU: every dispatch is checked, slowly and on one thread. It fails with
    /// [`Race`](crate::ErrorKind::Race) when its invocations conflict, access memory out of bounds, or do not all reach
    /// a barrier. Tensor operations run as the kernels that other devices run. Other devices cannot check, and do not
    /// open with it.
    pub check_races: bool,
    /// Built-in CPU, with `check_races`: also report reads of workgroup memory that no invocation has written. WGSL
    /// allows them, because the memory starts as zeros, but they are often mistakes. No effect without `check_races`.
    pub check_unwritten: bool,
    /// Compile the kernels of tensor operations and fills with the run-time checks that a kernel of the user's has. They
    /// need none: they stay within their buffers. For comparison; the results are the same. Off by default.
    pub check_generated: bool,
}

impl DeviceOptions {
    setters! {
        with_device: device: impl Into<String> = Some(device.into());
        with_policy: policy: impl Into<Option<SubmitPolicy>> = policy.into();
        with_memory_budget: memory_budget: u64 = Some(memory_budget);
        with_pool: pool: PoolLimits = pool;
        with_planning: planning: Planning = planning;
        with_tuning: tuning: TuningFile = tuning;
        with_cache: cache: CacheDir = cache;
        with_native_immediates: native_immediates: bool = native_immediates;
        with_native_replay: native_replay: bool = native_replay;
        with_auto_replay: auto_replay: bool = auto_replay;
        with_check_replays: check_replays: bool = check_replays;
        with_compile_budget: compile_budget: Duration = compile_budget;
        with_portable: portable: bool = portable;
        with_threads: threads: usize = Some(threads);
        with_kernel_budget: kernel_budget: impl Into<Option<Duration>> = kernel_budget.into();
        with_check_races: check_races: bool = check_races;
        with_check_unwritten: check_unwritten: bool = check_unwritten;
        with_check_generated: check_generated: bool = check_generated;
    }
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            device: None,
            policy: None,
            memory_budget: None,
            pool: PoolLimits::default(),
            planning: Planning::default(),
            tuning: TuningFile::default(),
            cache: CacheDir::default(),
            native_immediates: true,
            native_replay: true,
            auto_replay: true,
            check_replays: false,
            compile_budget: Duration::from_secs(10),
            portable: env::var_os("SORTIE_PORTABLE").is_some_and(|value| value == "1"),
            threads: None,
            kernel_budget: None,
            check_races: false,
            check_unwritten: false,
            check_generated: false,
        }
    }
}

/// Which planning steps are on. None of them changes a bit of any result, with one exception: a driver may contract a
/// product and a sum that fusion puts into one kernel.
///
/// ```
/// use sortie::{Device, DeviceOptions, device::Planning};
///
/// // For comparison: one kernel per tensor operation.
/// let planning = Planning { fuse: false, ..Default::default() };
/// let device = Device::cpu_with(DeviceOptions::default().with_planning(planning))?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1.0_f32; 16], [16]);
/// let y = x.exp().relu().read();
/// assert_eq!(batch.plan()?.dispatches(), 2);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planning {
    /// Put independent ops side by side and transfers together, which needs fewer passes and barriers.
    pub reorder: bool,
    /// Let scratch buffers with disjoint lifetimes share memory.
    pub reuse: bool,
    /// Fuse tensor operations into shared kernels.
    pub fuse: bool,
    /// Join independent tensor operations of one kind: what is recorded for one input runs for all of a batch at once.
    /// Off by default.
    pub join: bool,
}

impl Default for Planning {
    fn default() -> Self {
        Self { reorder: true, reuse: true, fuse: true, join: false }
    }
}

/// How much memory may be idle in a pool, and for how long.
///
/// ```
/// use sortie::{Device, DeviceOptions, device::PoolLimits};
///
/// let pool = PoolLimits { bytes: 64 << 20, ..Default::default() };
/// let device = Device::cpu_with(DeviceOptions::default().with_pool(pool).with_memory_budget(1 << 30))?;
/// # let _ = device;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most idle bytes. A buffer larger than a quarter of this is never kept.
    pub bytes: u64,
    /// Most idle buffers.
    pub count: usize,
    /// Longest time that a buffer may be idle; enforced when the pool is next used.
    pub age: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { bytes: 256 << 20, count: 16_384, age: Duration::from_secs(60) }
    }
}

/// The file with tuning measurements of devices. It is read when a device is opened, and written only by
/// [`MatmulReport::save`](crate::tune::MatmulReport::save) and [`TuneReport::save`](crate::tune::TuneReport::save).
///
/// ```
/// use sortie::{Device, DeviceOptions, device::TuningFile};
///
/// // For tests: no file is read.
/// let device = Device::cpu_with(DeviceOptions::default().with_tuning(TuningFile::Off))?;
/// # let _ = device;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuningFile {
    /// The path in `SORTIE_TUNING` (or `off`), else `sortie/tuning.toml` in the user's configuration directory.
    #[default]
    Usual,
    /// This file.
    At(PathBuf),
    /// No file is read, and nothing can be saved. The defaults for the kind of device are used.
    Off,
}

impl TuningFile {
    /// The path of the file, unless it is off.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Usual => usual_path("SORTIE_TUNING", || {
                Some(etcetera::choose_base_strategy().ok()?.config_dir().join("sortie").join("tuning.toml"))
            }),
            Self::At(path) => Some(path.clone()),
            Self::Off => None,
        }
    }
}

/// Where a device keeps its compiled pipelines, so that the next process need not compile them again. Vulkan only. The
/// driver decides what it keeps: for lavapipe (Mesa 22.3) and SwiftShader the cache is empty.
///
/// This is the only file that is written without a request: from time to time as kernels are compiled, and when the
/// last handle of the device is dropped. [`CacheDir::Off`], or `SORTIE_CACHE=off`, switches it off.
///
/// The folder is called `pipelines`. It is created with access for its user only. If others may write to it, it is
/// ignored with a warning.
///
/// ```
/// use sortie::{Device, DeviceOptions, device::CacheDir};
///
/// let options = DeviceOptions::default().with_cache(CacheDir::At("/var/cache/my-service".into()));
/// let none = options.clone().with_cache(CacheDir::Off);
/// assert_eq!(Device::cpu_with(none)?.cache_file(), None);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheDir {
    /// In the directory in `SORTIE_CACHE` (or `off`), else in `sortie` in the user's cache directory.
    #[default]
    Usual,
    /// In this directory.
    At(PathBuf),
    /// No pipelines are kept.
    Off,
}

impl CacheDir {
    /// The folder, unless it is off.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let directory = match self {
            Self::Usual => {
                usual_path("SORTIE_CACHE", || Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("sortie")))?
            }
            Self::At(path) => path.clone(),
            Self::Off => return None,
        };
        Some(directory.join("pipelines"))
    }
}

/// The path in an environment variable, or the default if that is not set. `None` if it is `off`.
fn usual_path(variable: &str, default: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(off) if off == "off" => None,
        Some(path) if !path.is_empty() => Some(path.into()),
        _ => default(),
    }
}
