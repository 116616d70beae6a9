//! Devices: opening, listing and importing them, their options, and the buffers that the user owns.
//!
//! A [`Device`] is a handle. Buffers, kernels and submissions keep alive the parts of the device that they use, so
//! handles may be dropped in any order while work is in flight. A device from [`Device::from_wgpu`] is borrowed: no
//! error handlers are installed, errors are caught by error scopes on the calling thread, and submissions of the
//! application may interleave with ours.

mod adapter;
mod adapter_info;
mod buffer;
mod core;
mod kernels;
mod notice;
mod open;
#[cfg_attr(not(target_os = "linux"), path = "no_quiet.rs")]
mod quiet;
mod recordings;
mod replay_thread;
mod watch;

use std::{path::Path, sync::Arc};

use self::adapter::{OpenedAdapter, SelectedDevice};
pub use self::buffer::{Buffer, Slice};
pub(crate) use self::buffer::{BufferMemory, bounds};
pub(crate) use self::{core::DeviceCore, open::default_policy};
use crate::{
    error::{Error, ErrorKind, Result},
    exit,
    metrics::Metrics,
    policy::SubmitPolicy,
    submit::{Driver, OneThread},
};
pub use crate::{
    info::{DeviceInfo, DeviceKind, Limits},
    options::{CacheDir, DeviceOptions, Planning, PoolLimits, TuningFile},
};

/// A device that runs work: a GPU or a software driver, through wgpu, or the built-in CPU. Cheap to clone, usable from
/// any thread.
///
/// The only file that it writes by default is the driver's pipeline cache ([`DeviceOptions::cache`]). It runs
/// benchmarks only in [`Device::tune`].
///
/// ```
/// let device = sortie::Device::open()?; // the best GPU, else the built-in CPU; or the one SORTIE_DEVICE names
/// println!("running on {}", device.info());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Device {{ info: {:?}, .. }}", self.info().to_string())]
pub struct Device {
    pub(crate) core: Arc<DeviceCore>,
}

impl Device {
    /// Opens the best hardware that opens, else the built-in CPU; or the device that `SORTIE_DEVICE` names (any part of
    /// its name, or its index in [`Device::list`]). A software driver is opened only by name.
    ///
    /// ```
    /// let device = sortie::Device::open()?;
    /// println!("running on {}", device.info());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice), listing the available devices, if `SORTIE_DEVICE` names an unknown device or
    /// one that does not open.
    pub fn open() -> Result<Self> {
        Self::open_with(DeviceOptions::default())
    }

    /// Opens the best hardware that opens, and no other device. `SORTIE_DEVICE` is ignored.
    ///
    /// ```
    /// use sortie::Device;
    ///
    /// let device = Device::gpu().or_else(|_| Device::cpu())?;
    /// assert_eq!(device.is_cpu(), Device::gpu().is_err());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice), listing the available devices, if there is no hardware or none opens.
    pub fn gpu() -> Result<Self> {
        let _inside = exit::enter();
        let options = DeviceOptions::default();
        open::wgpu(adapter::hardware(&options)?, options, false).map(Self::opened)
    }

    /// Opens the device with this name: any part of it, or an index in [`Device::list`]. `SORTIE_DEVICE` is ignored.
    ///
    /// ```
    /// let device = sortie::Device::named("cpu")?;
    /// assert!(device.is_cpu());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::open_with`].
    pub fn named(name: &str) -> Result<Self> {
        Self::open_with(DeviceOptions::default().with_device(name))
    }

    /// Opens a device with options.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice) with the requested and the available devices;
    /// [`Unsupported`](ErrorKind::Unsupported) for options that the device does not support.
    pub fn open_with(options: DeviceOptions) -> Result<Self> {
        let _inside = exit::enter();
        match adapter::open(&options)? {
            SelectedDevice::Wgpu(opened) => {
                let device = open::wgpu(*opened, options, false).map(Self::opened)?;
                if device.info().kind == DeviceKind::Software {
                    notice::slow(device.info());
                }
                Ok(device)
            }
            SelectedDevice::Cpu { instead } => {
                let device = Self::cpu_with(options)?;
                if instead {
                    notice::no_hardware(device.info());
                }
                Ok(device)
            }
        }
    }

    /// The built-in CPU: this crate itself runs the WGSL kernels on this machine's cores. Always available, without a
    /// driver.
    ///
    /// ```
    /// let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// let batch = device.batch();
    /// batch.copy(x.slice(..2), x.slice(1..));
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [1, 1, 2]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Internal`](ErrorKind::Internal) if the system cannot start more threads.
    pub fn cpu() -> Result<Self> {
        Self::cpu_with(DeviceOptions::default())
    }

    /// As [`Device::cpu`], with options. [`DeviceOptions::device`] and `SORTIE_DEVICE` are ignored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie::{Device, DeviceOptions};
    ///
    /// let budget = Some(Duration::from_secs(1));
    /// let device = Device::cpu_with(DeviceOptions::default().with_threads(1).with_kernel_budget(budget))?;
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

    /// The built-in CPU with this driver.
    pub(crate) fn cpu_driven(options: DeviceOptions, driver: Box<dyn Driver>) -> Result<Self> {
        open::cpu(options, driver).map(Self::opened)
    }

    /// All devices that can compute, the best first: hardware, the built-in CPU, software drivers. `SORTIE_DEVICE`
    /// accepts their index.
    ///
    /// ```
    /// use sortie::{Device, device::DeviceKind};
    ///
    /// let devices = Device::list();
    /// for (index, info) in devices.iter().enumerate() {
    ///     println!("{index}: {info}");
    /// }
    /// assert!(devices.iter().any(|info| info.kind == DeviceKind::Cpu)); // always available
    /// ```
    #[must_use]
    pub fn list() -> Vec<DeviceInfo> {
        let _inside = exit::enter();
        adapter::list()
    }

    /// Uses a wgpu device that the application owns, as a guest: it installs no handlers, and uses only the features
    /// that the device was opened with.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions};
    ///
    /// # let owner = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    /// # let (gpu, queue) = owner.wgpu().expect("it is wgpu's");
    /// let device = Device::from_wgpu(gpu.clone(), queue.clone())?; // for example of a renderer
    /// let x = device.upload(&[1.0_f32; 64])?;
    /// # assert_eq!(x.len(), 64);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) if its limits are too small for our own kernels, or if our threads cannot be
    /// started; [`Unsupported`](ErrorKind::Unsupported) for options that only the built-in CPU supports.
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
        // wgpu reports further unsupported features when a kernel is compiled.
        let downlevel = wgpu::DownlevelFlags::compliant();
        open::wgpu(OpenedAdapter { device, queue, info, downlevel }, options, true).map(Self::opened)
    }

    /// Opens the same adapter again, after a loss. Buffers and kernels of the lost device cannot be used with it.
    ///
    /// ```
    /// use sortie::{Device, ErrorKind};
    ///
    /// /// Runs `work` again on a reopened device if the device was lost.
    /// fn run<T>(device: &mut Device, work: impl Fn(&Device) -> sortie::Result<T>) -> sortie::Result<T> {
    ///     match work(device) {
    ///         Err(error) if error.kind() == ErrorKind::DeviceLost => {
    ///             *device = device.reopen()?;
    ///             work(device) // creates its buffers and kernels again
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
    /// [`Unsupported`](ErrorKind::Unsupported) for a guest, whose device the application owns; else as
    /// [`Device::open_with`].
    pub fn reopen(&self) -> Result<Self> {
        let _inside = exit::enter();
        if self.core.info.kind == DeviceKind::Cpu {
            return Self::cpu_with(self.core.options.clone());
        }
        if self.core.backend.is_borrowed() {
            let message =
                "a device that was passed in cannot be reopened: open it again and pass it to Device::from_wgpu";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let options = self.core.options.clone();
        open::wgpu(adapter::reopen(&self.core.info, &options)?, options, false).map(Self::opened)
    }

    getters! { self:
        /// Whether it is the built-in CPU.
        is_cpu: bool = self.info().kind == DeviceKind::Cpu;

        /// Name, driver and limits.
        info: &DeviceInfo = &self.core.info;

        /// The wgpu device behind it, for its limits, features and error scopes; `None` on a device that is not wgpu's.
        /// Unlike [`Device::wgpu`], it changes nothing.
        wgpu_device: Option<&wgpu::Device> = self.core.backend.wgpu_device();

        /// Its submit policy: from [`DeviceOptions::policy`], else from the tuning file, else the
        /// [default](SubmitPolicy).
        policy: SubmitPolicy = self.core.policy;

        /// The pipeline cache file, which may not exist yet. `None` on the built-in CPU, on backends other than Vulkan,
        /// for a guest, and if [`DeviceOptions::cache`] or `SORTIE_CACHE` is `off`.
        cache_file: Option<&Path> = self.core.backend.cache_file();

        /// Bytes of device memory allocated: in use, idle in the pool, or holding writes that the device has not
        /// consumed yet. [`DeviceOptions::memory_budget`] bounds them.
        memory_bytes: u64 = self.core.pool.live_bytes() + self.core.backend.staged_bytes();
    }

    /// The wgpu device and queue behind it; `None` on a device that is not wgpu's.
    ///
    /// From the first call on, all replays go through wgpu, because the application may use the queue. Before it, some
    /// are submitted to the driver's queue directly.
    ///
    /// An error scope that is open on a thread while it calls into this crate catches this crate's errors too: pop it
    /// first.
    #[must_use]
    pub fn wgpu(&self) -> Option<(&wgpu::Device, &wgpu::Queue)> {
        self.core.backend.wgpu()
    }

    /// A snapshot of its metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        // Updates the gauge: the device may have consumed staged writes since.
        self.core.backend.staged_bytes();
        self.core.counters.snapshot(self.core.policy)
    }

    /// Frees all idle device memory in the pools.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// drop(device.zeros::<f32>(1_000_000)?); // stays in the pool, for the next buffer of its size
    /// device.trim();
    /// assert_eq!(device.memory_bytes(), 0);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn trim(&self) {
        let _inside = self.core.backend.enter();
        self.core.backend.flush();
        self.core.pool.trim();
        self.core.backend.trim();
        self.core.counters.publish();
    }

    /// Writes the pipelines compiled so far to [`Device::cache_file`] and returns the number of bytes. This also
    /// happens when the last handle is dropped, and occasionally as kernels are compiled: a process that ends without
    /// dropping its device has written more than half of them, once there are eight.
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
    /// [`Unsupported`](ErrorKind::Unsupported) if there is no cache file; [`File`](ErrorKind::File) if it cannot be
    /// written, or would not be private.
    pub fn save_cache(&self) -> Result<u64> {
        self.core.lost.check()?;
        let backend = &*self.core.backend;
        let (Some(path), Some(saved)) = (backend.cache_file(), backend.save_cache()) else {
            return Err(Error::new(ErrorKind::Unsupported, format!("{} keeps no compiled pipelines", self.info())));
        };
        saved.map_err(|error| {
            let message = format!("the pipeline cache {} cannot be written", path.display());
            Error::new(ErrorKind::File, message).caused_by(error)
        })
    }

    /// Logs and publishes the opened device.
    fn opened(core: DeviceCore) -> Self {
        let DeviceInfo { name, kind, backend, driver, .. } = &core.info;
        tracing::info!(target: "sortie", name, ?kind, backend, driver, "a device is open");
        core.counters.publish_as(name);
        Self { core: Arc::new(core) }
    }
}

impl DeviceInfo {
    /// Opens this device.
    ///
    /// ```
    /// use sortie::Device;
    ///
    /// let all = Device::list();
    /// let device = all[all.len() - 1].open()?;
    /// # assert_eq!(device.info().kind, all[all.len() - 1].kind);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice) if it no longer exists or does not open.
    pub fn open(&self) -> Result<Device> {
        if self.kind == DeviceKind::Cpu {
            return Device::cpu();
        }
        let _inside = exit::enter();
        let options = DeviceOptions::default();
        open::wgpu(adapter::reopen(self, &options)?, options, false).map(Device::opened)
    }
}
