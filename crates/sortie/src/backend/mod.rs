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

use std::{io, panic::Location, path::Path, sync::Arc, time::Duration};

use sortie_plan::{
    Caps,
    fuse::{KernelSource, Program},
};

use crate::{
    error::{Error, ErrorKind, Result},
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

/// What runs the plans of one device.
pub(crate) trait Backend: Send + Sync {
    /// What it can do, as data.
    fn abilities(&self) -> Abilities;

    /// What stands for a tensor program.
    fn generate(&self, program: &Program, caps: &Caps) -> Generated;

    /// Launches a batch or a run of a replay.
    fn launch(&self, launch: Launch<'_>) -> Result<()>;

    /// Gives a planned recording all that its runs need, for as long as it is kept. The payload is complete, and its ports have memory.
    fn freeze(
        &self,
        planned: &Arc<CachedPlan>,
        cuts: Arc<Cuts>,
        resources: Resources,
        at: &'static Location<'static>,
    ) -> Result<FrozenPlan>;

    /// Records a native replay anew, cut by a route that it [wants](Frozen::wanted). `None` where no replay is native.
    fn refreeze(
        &self,
        _frozen: &FrozenPlan,
        _route: Arc<Cuts>,
        _at: &'static Location<'static>,
    ) -> Result<Option<FrozenPlan>> {
        Ok(None)
    }

    /// Puts data into memory that no batch has seen yet.
    fn upload(&self, block: &Arc<Block>, data: &[u8]) -> Result<()>;

    /// Overwrites memory in order with the submissions, padded with zeros to 4 bytes. `whole` says that it overwrites all of it.
    fn write(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()>;

    /// Makes recycled memory that no batch has seen yet read as zero.
    fn zero(&self, block: &Arc<Block>) -> Result<()>;

    /// Hands over writes that would wait for the next submission, and waits until the device has taken them.
    fn flush(&self);

    /// Bytes of writes that the device has not taken yet.
    fn staged_bytes(&self) -> u64;

    /// Frees what lies idle.
    fn trim(&self) {}

    /// Nothing more will come. Never waits.
    fn close(&self);

    /// An error that may come of a lost device, told as such.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// Asks a device that cannot tell us whether it is gone.
    fn probe(&self) {}

    /// The calling thread is about to use a driver. Once the process exits this does not return. `None` where there is no driver.
    fn enter(&self) -> Option<Inside> {
        None
    }

    /// The wgpu device and queue behind it. From the first call on others may be using the queue.
    fn wgpu(&self) -> Option<(&::wgpu::Device, &::wgpu::Queue)> {
        None
    }

    /// Whether the device belongs to the application.
    fn is_borrowed(&self) -> bool {
        false
    }

    /// A buffer of the application's as memory.
    fn import(&self, _buffer: ::wgpu::Buffer) -> Result<Arc<Block>> {
        Err(Error::new(ErrorKind::Unsupported, "import: the built-in CPU has no use for a wgpu::Buffer"))
    }

    /// Where compiled pipelines are kept from one process to the next, if anywhere.
    fn cache_file(&self) -> Option<&Path> {
        None
    }

    /// Writes the pipelines compiled so far, and says how many bytes the driver gave. `None` where none are kept.
    fn save_cache(&self) -> Option<io::Result<u64>> {
        None
    }

    /// The libraries that compute large products, where products are not kernels.
    fn libraries(&self) -> Option<&dyn ProductLibraries> {
        None
    }
}

/// What a backend can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Tensor programs may be native code.
    pub(crate) native_programs: bool,
    /// Dispatches can be divided.
    pub(crate) divides: bool,
    /// Bytes can be copied within one buffer.
    pub(crate) copies_within: bool,
    /// Workgroups that a dispatch may have along each axis.
    pub(crate) max_groups: u32,
    /// Bytes of the longest pattern that memory can be filled with.
    pub(crate) fill_pattern_bytes: usize,
    /// Bytes that can be filled at a time, and an alignment.
    pub(crate) fill_binding_bytes: u64,
    /// Bytes of the hidden parameters that filling with a pattern takes.
    pub(crate) fill_hidden_immediates: u32,
}

/// What stands for a tensor program on a device.
pub(crate) enum Generated {
    /// WGSL, to be compiled as any other kernel.
    Source(KernelSource),
    /// A compiled form that never was WGSL.
    Native {
        compiled: Box<dyn CompiledKernel>,
        interface: Interface,
        /// Its work in workgroups, for estimates of what it costs.
        grid: [u32; 3],
    },
}

/// Libraries that multiply large matrices on the host, by name.
pub(crate) trait ProductLibraries {
    /// How long each takes. It uses the device's threads.
    fn time_all(&self) -> Vec<(&'static str, Duration)>;

    /// The one in use.
    fn current(&self) -> &'static str;

    /// Uses the one of this name, if there is one.
    fn select(&self, name: &str);
}

/// What a backend is opened with.
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

/// A backend that has been opened, with the common parts that are made for it.
pub(crate) struct OpenBackend {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) kernels: Arc<KernelCache>,
}
