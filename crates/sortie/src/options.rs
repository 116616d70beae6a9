//! How a device is opened: plain data, and the places of its files that it names.

use std::{path::PathBuf, time::Duration};

use etcetera::BaseStrategy;

use crate::policy::SubmitPolicy;

/// Which device to open and how it may behave; every field has a default that suits most programs.
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
    /// Name (any part of it, in any case) or index in [`Device::list`](crate::Device::list) of the device to open; `"cpu"` is the
    /// built-in CPU, `"noop"` wgpu's device that checks everything and runs nothing. `None`: what `SORTIE_DEVICE` says, else the best
    /// hardware there is, else the built-in CPU.
    pub device: Option<String>,
    /// How batches are cut into submissions, and how many of these are under way at once. `None`: as the tuning file says, if `sortie tune` has found
    /// something that suits the device better than [the default](SubmitPolicy).
    pub policy: Option<SubmitPolicy>,
    /// Bytes of device memory that the buffers of this device may take together; `None`: no limit of ours.
    pub memory_budget: Option<u64>,
    /// What may lie idle in the buffer pool.
    pub pool: PoolLimits,
    /// How batches are planned.
    pub planning: Planning,
    /// Where it finds what was measured about it. The file is only read when a device is opened; [`MatmulReport::save`](crate::ProductFindings::save) and
    /// [`TuneReport::save`](crate::Findings::save), and with them `sortie tune`, write it.
    pub tuning: TuningFile,
    /// Where it keeps compiled pipelines, on Vulkan: the one file that is written without being asked for. [`CacheDir::Off`] switches it off.
    pub cache: CacheDir,
    /// Pass immediates natively where the device can; off, they go through a parameter buffer as on devices that cannot.
    pub native_immediates: bool,
    /// Replays are recorded once for the device itself, on Vulkan; off, and elsewhere, every run encodes its commands anew. The results are the same.
    pub native_replay: bool,
    /// For debugging: the first run of each replay is done once more beforehand, as a batch would be, and undone; it fails with
    /// [`Internal`](crate::ErrorKind::Internal) if both did not leave the same in memory. It waits for the device, and a recording whose result depends on memory that cannot
    /// be read and restored (imported without `COPY_SRC` and `COPY_DST`) fails wrongly.
    pub check_replays: bool,
    /// The longest that a kernel may take to be parsed, checked and compiled, before the caller gets [`Timeout`](crate::ErrorKind::Timeout). The
    /// compilation itself cannot be stopped and goes on by itself; while two such go on, no kernel is compiled
    /// ([`Overloaded`](crate::ErrorKind::Overloaded)). Some drivers compile when a kernel first runs: that is not in it.
    pub compile_budget: Duration,
    /// Holds every device to what all WebGPU devices have: the default limits and alignments (8 storage buffers, bindings of 128 MiB that start at multiples of
    /// 256 bytes, workgroups of 256 invocations and 16 KiB, …), and no optional feature of WGSL (`f16`, 64-bit numbers, subgroups). What a device with these limits
    /// refuses is refused with the same kind of error, on the built-in CPU as on GPUs: a program that is tested with it there runs elsewhere.
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
    /// let mut batch = device.batch();
    /// batch.dispatch(&kernel, &[&x.slice(64..)], Grid::items(36)); // at byte 256
    /// batch.submit()?;
    /// let mut batch = device.batch();
    /// batch.dispatch(&kernel, &[&x.slice(1..)], Grid::items(99)); // at byte 4, which the built-in CPU could do
    /// assert_eq!(batch.submit().unwrap_err().kind(), &ErrorKind::Bindings);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub portable: bool,
    /// Built-in CPU: threads that work on one large kernel, the one that runs it included. `None`: one for each core. With 1 the order
    /// of atomic operations is the same in every run.
    pub threads: Option<usize>,
    /// Built-in CPU: the longest that one dispatch may run before it is stopped with [`Timeout`](crate::ErrorKind::Timeout). `None`: as
    /// long as it takes. Other devices have a watchdog of their own, and do not look at this.
    pub kernel_budget: Option<Duration>,
    /// Built-in CPU: every dispatch runs slowly, alone and watched, and fails with [`Race`](crate::ErrorKind::Race) when its invocations
    /// conflict, run past the end of memory or reach a barrier apart. Other devices cannot, and do not open with it.
    pub check_races: bool,
    /// Built-in CPU, with `check_races`: reads of workgroup memory that no invocation has written are reported too. It starts as zeros, so WGSL allows
    /// them; often they are mistakes. Without `check_races` it changes nothing.
    pub check_unwritten: bool,
}

/// Setters that take and return the options, one per field.
macro_rules! setters {
    ($($with:ident: $field:ident: $type:ty = $value:expr;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $with(mut self, $field: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
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
        with_check_replays: check_replays: bool = check_replays;
        with_compile_budget: compile_budget: Duration = compile_budget;
        with_portable: portable: bool = portable;
        with_threads: threads: usize = Some(threads);
        with_kernel_budget: kernel_budget: impl Into<Option<Duration>> = kernel_budget.into();
        with_check_races: check_races: bool = check_races;
        with_check_unwritten: check_unwritten: bool = check_unwritten;
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
            check_replays: false,
            compile_budget: Duration::from_secs(10),
            portable: false,
            threads: None,
            kernel_budget: None,
            check_races: false,
            check_unwritten: false,
        }
    }
}

/// Which parts of planning are on. None of them changes a bit of any result, but for a driver that contracts a product and a sum that
/// fusion puts into one kernel.
///
/// ```
/// use sortie::{Device, DeviceOptions, device::Planning};
///
/// // To compare: every tensor operation a kernel of its own.
/// let planning = Planning { fuse: false, ..Default::default() };
/// let device = Device::cpu_with(DeviceOptions::default().with_planning(planning))?;
/// let mut batch = device.batch();
/// let x = batch.upload(&[1.0_f32; 16], [16]);
/// let x = batch.exp(x);
/// let x = batch.relu(x);
/// let x = batch.read(x);
/// assert_eq!(batch.plan()?.dispatches(), 2);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planning {
    /// Put independent ops side by side and transfers together, so that passes and barriers are few.
    pub reorder: bool,
    /// Let scratch memory whose lifetimes do not meet share buffers.
    pub reuse: bool,
    /// Let tensor operations share kernels.
    pub fuse: bool,
}

impl Default for Planning {
    fn default() -> Self {
        Self { reorder: true, reuse: true, fuse: true }
    }
}

/// How much memory may lie idle in a pool, and for how long.
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
    /// Most bytes lying idle. A buffer of more than a quarter of it is never kept.
    pub bytes: u64,
    /// Most buffers lying idle.
    pub count: usize,
    /// Longest time a buffer lies idle; enforced when the pool is next used.
    pub age: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { bytes: 256 << 20, count: 16_384, age: Duration::from_secs(60) }
    }
}

/// Where a device finds what was measured about it. It is read when a device is opened, and written only by [`MatmulReport::save`](crate::ProductFindings::save) and [`TuneReport::save`](crate::Findings::save).
///
/// ```
/// use sortie::{Device, DeviceOptions, device::TuningFile};
///
/// // As in a test: nothing is read.
/// let device = Device::cpu_with(DeviceOptions::default().with_tuning(TuningFile::Off))?;
/// # let _ = device;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuningFile {
    /// Where `SORTIE_TUNING` says (a path, or `off`), else `sortie/tuning.toml` in the user's configuration directory.
    #[default]
    Usual,
    /// Here.
    At(PathBuf),
    /// Nowhere, and nothing can be saved: what suits most devices of a kind is used.
    Off,
}

impl TuningFile {
    /// The file, if there is to be one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Usual => match std::env::var_os("SORTIE_TUNING") {
                Some(off) if off == "off" => None,
                Some(path) if !path.is_empty() => Some(path.into()),
                _ => Some(etcetera::choose_base_strategy().ok()?.config_dir().join("sortie").join("tuning.toml")),
            },
            Self::At(path) => Some(path.clone()),
            Self::Off => None,
        }
    }
}

/// Where a device keeps its compiled pipelines, so that the next process need not compile them again. Only Vulkan devices can, and what is kept is up to the driver:
/// of lavapipe (Mesa 22.3) and SwiftShader it is an empty cache.
///
/// It is the one file that is written without being asked for: now and then as kernels are compiled, and when the last handle of the device goes. [`CacheDir::Off`], or
/// `SORTIE_CACHE=off`, switches it off.
///
/// The folder that is used is called `pipelines`, made so that only its user may look into it, and ignored, with a warning, when others may write to it.
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
    /// In what `SORTIE_CACHE` names (a directory, or `off`), else in `sortie` in the user's cache directory.
    #[default]
    Usual,
    /// In this directory.
    At(PathBuf),
    /// Nowhere.
    Off,
}

impl CacheDir {
    /// The folder to use, if any.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let directory = match self {
            Self::Usual => match std::env::var_os("SORTIE_CACHE") {
                Some(off) if off == "off" => return None,
                Some(path) if !path.is_empty() => path.into(),
                _ => etcetera::choose_base_strategy().ok()?.cache_dir().join("sortie"),
            },
            Self::At(path) => path.clone(),
            Self::Off => return None,
        };
        Some(directory.join("pipelines"))
    }
}
