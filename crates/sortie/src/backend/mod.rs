//! What runs plans: the seam between the library and a kind of device.
//!
//! A backend is selected once, when a device is opened. It has its own memory, compiled kernels, bind groups and queue; plans, kernels'
//! front end, poison and completion are common. Common code never asks which backend it is: what differs is data ([`Abilities`]) or behind
//! [`Backend`].

pub(crate) mod cpu;
pub(crate) mod interpret;
#[cfg_attr(any(target_vendor = "apple", target_family = "wasm"), path = "vulkan/absent.rs")]
pub(crate) mod vulkan;
pub(crate) mod wgpu;

use std::{io, path::Path, sync::Arc, time::Duration};

use sortie_plan::{
    Caps,
    fuse::{KernelSource, Program},
};

use crate::{
    error::{CallSite, Error, ErrorKind, Result},
    exit::Inside,
    info::DeviceInfo,
    kernel::{CompiledKernel, Interface, KernelCache},
    launch::Launch,
    lost::Lost,
    memory::{Block, Pool},
    metrics::Counters,
    options::DeviceOptions,
    plan::{CachedPlan, Cuts, FrozenPlan, Resources},
    policy::{Costs, SubmitPolicy},
};

/// Runs the plans of one device.
pub(crate) trait Backend: Send + Sync {
    /// Its abilities, as data.
    fn abilities(&self) -> Abilities;

    /// Generates the code of a tensor program.
    fn generate(&self, program: &Program, caps: &Caps) -> Generated;

    /// Launches a batch or a run of a replay.
    fn launch(&self, launch: Launch<'_>) -> Result<()>;

    /// Encodes a batch of one submission into the application's encoder.
    fn encode(&self, _launch: Launch<'_>, _encoder: &mut ::wgpu::CommandEncoder) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "encode: the built-in CPU does not use a wgpu::CommandEncoder"))
    }

    /// Prepares a planned recording for replay: allocates everything that its runs need. `resources` is complete, and
    /// its ports have memory.
    fn freeze(
        &self,
        planned: &Arc<CachedPlan>,
        cuts: Arc<Cuts>,
        resources: Resources,
        at: CallSite,
    ) -> Result<FrozenPlan>;

    /// Records a planned batch for the device, to be submitted again with the same buffers. `resources` are those that
    /// were recorded, without memory for scratch. `refreshes_params`: the immediates of runs differ. `None` if the
    /// device cannot record it.
    fn record_batch(
        &self,
        _planned: &Arc<CachedPlan>,
        _cuts: Arc<Cuts>,
        _resources: Resources,
        _refreshes_params: bool,
        _at: CallSite,
    ) -> Result<Option<FrozenPlan>> {
        Ok(None)
    }

    /// Rerecords a native replay with cuts from [`FrozenPlan::wanted`]. `None` if the backend has no native replays.
    fn refreeze(&self, _frozen: &FrozenPlan, _route: Arc<Cuts>, _at: CallSite) -> Result<Option<FrozenPlan>> {
        Ok(None)
    }

    /// Writes data to memory that no batch has used yet.
    fn upload(&self, block: &Arc<Block>, data: &[u8]) -> Result<()>;

    /// Overwrites memory in order with the submissions, padded with zeros to 4 bytes. `whole`: it overwrites all of the
    /// block.
    fn write(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()>;

    /// Zeroes recycled memory that no batch has used yet.
    fn zero(&self, block: &Arc<Block>) -> Result<()>;

    /// Submits writes that would wait for the next submission, and waits until the device has executed them.
    fn flush(&self);

    /// Bytes of writes that the device has not executed yet.
    fn staged_bytes(&self) -> u64;

    /// Frees idle memory.
    fn trim(&self) {}

    /// No more work will be submitted. Never waits.
    fn close(&self);

    /// Replaces an error caused by a lost device with [`DeviceLost`](ErrorKind::DeviceLost).
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// Checks whether the device is lost, if it does not report that by itself.
    fn probe(&self) {}

    /// Called before using a driver. Does not return once the process exits. `None` if there is no driver.
    fn enter(&self) -> Option<Inside> {
        None
    }

    /// Its wgpu device.
    fn wgpu_device(&self) -> Option<&::wgpu::Device> {
        None
    }

    /// Its wgpu device and queue. After the first call, others may use the queue.
    fn wgpu(&self) -> Option<(&::wgpu::Device, &::wgpu::Queue)> {
        None
    }

    /// Whether the device belongs to the application.
    fn is_borrowed(&self) -> bool {
        false
    }

    /// Imports a buffer of the application.
    fn import(&self, _buffer: ::wgpu::Buffer) -> Result<Arc<Block>> {
        Err(Error::new(ErrorKind::Unsupported, "import: the built-in CPU does not use a wgpu::Buffer"))
    }

    /// The file that keeps compiled pipelines between processes, if any.
    fn cache_file(&self) -> Option<&Path> {
        None
    }

    /// Writes the pipelines compiled so far and returns the number of bytes from the driver. `None` if none are kept.
    fn save_cache(&self) -> Option<io::Result<u64>> {
        None
    }

    /// The libraries for large matrix products, if products are not kernels.
    fn libraries(&self) -> Option<&dyn ProductLibraries> {
        None
    }
}

/// Abilities of a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Most bytes that a recording of the device's own may write or read in each run; 0 if it keeps no recordings.
    pub(crate) recorded_run_bytes: u64,
    /// Tensor programs may be native code.
    pub(crate) native_programs: bool,
    /// Dispatches can be divided.
    pub(crate) divides: bool,
    /// Bytes can be copied within one buffer.
    pub(crate) copies_within: bool,
    /// Most workgroups of a dispatch along each axis.
    pub(crate) max_groups: u32,
    /// Length of the longest fill pattern in bytes.
    pub(crate) fill_pattern_bytes: usize,
    /// Most bytes that one fill can bind. Its binding may start up to one alignment before the filled range.
    pub(crate) fill_binding_bytes: u64,
    /// Bytes of hidden parameters of a fill with a pattern.
    pub(crate) fill_hidden_immediates: u32,
}

/// The code of a tensor program on a device.
pub(crate) enum Generated {
    /// WGSL, compiled like any other kernel.
    Source(KernelSource),
    /// Native code, without WGSL.
    Native {
        compiled: Box<dyn CompiledKernel>,
        interface: Interface,
        /// Its work in workgroups, for cost estimates.
        grid: [u32; 3],
    },
}

/// Libraries for large matrix products on the host, by name.
pub(crate) trait ProductLibraries {
    /// Times each library, on the device's threads.
    fn time_all(&self) -> Vec<(&'static str, Duration)>;

    /// The library in use.
    fn current(&self) -> &'static str;

    /// Selects the library with this name, if it exists.
    fn select(&self, name: &str);
}

/// The arguments for opening a backend.
pub(crate) struct OpenArgs<'a> {
    /// The number of the device.
    pub(crate) id: u64,
    pub(crate) info: &'a DeviceInfo,
    pub(crate) options: &'a DeviceOptions,
    pub(crate) policy: SubmitPolicy,
    pub(crate) costs: &'a Arc<Costs>,
    pub(crate) lost: &'a Arc<Lost>,
    pub(crate) counters: &'a Arc<Counters>,
}

/// An opened backend, with its pool and kernel cache.
pub(crate) struct OpenBackend {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) kernels: Arc<KernelCache>,
}
