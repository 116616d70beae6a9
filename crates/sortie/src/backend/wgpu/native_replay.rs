//! The interface of native replays, which the device itself keeps a recording of. One implementation per API below
//! wgpu.

use std::{any::Any, fmt::Debug, sync::Arc};

use super::{compiler::WgpuCompiler, gpu::Gpu, timeline::Timeline};
use crate::{
    error::Result,
    finish::PendingReadback,
    info::Limits,
    kernel::{Kernel, KernelCache},
    memory::Block,
    metrics::Counters,
    plan::FrozenPlan,
};

/// A replay recorded for the device.
pub(crate) trait NativeReplay: Any + Send + Sync {
    /// The dispatches and transfers of one run.
    fn counts(&self) -> NativeCounts;

    /// Memory for the data of one run, with what `fill` writes to it. `None` if the replay has none left: the run is
    /// encoded then.
    fn run_memory(self: Arc<Self>, fill: &mut dyn FnMut(&mut [u8])) -> Result<Option<Arc<dyn RunMemory>>>;

    /// Encodes one of its submissions into an encoder that is used for nothing else, with copies from and to the run's
    /// memory. Fails if the encoder no longer has a native handle: the device was destroyed.
    fn execute(&self, part: usize, memory: Option<&dyn RunMemory>, encoder: &mut wgpu::CommandEncoder) -> Result<()>;

    /// Whether it can be submitted directly, bypassing wgpu.
    fn is_direct(&self) -> bool;

    /// Submits one of its submissions directly, bypassing wgpu, and returns the timeline value that it signals when
    /// done. The caller has the turn of the submit queue, and ensures that nothing else uses the device's queue.
    fn submit(&self, part: usize, memory: Option<&dyn RunMemory>, timeline: &Timeline) -> Result<u64>;
}

/// Memory for the data of one run of a native replay. The run and its readings hold it.
pub(crate) trait RunMemory: Any + Debug + Send + Sync {
    /// What the run reads back.
    fn pending(self: Arc<Self>) -> Arc<dyn PendingReadback>;
}

/// Dispatches and transfers of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NativeCounts {
    pub(crate) dispatches: u64,
    pub(crate) transfers: u64,
}

/// Records native replays.
pub(crate) trait ReplayRecorder: Send + Sync {
    /// Whether a plan can be recorded: it must have no ops that every run has to encode.
    fn supports(&self, gpu: &Gpu, frozen: &FrozenPlan) -> bool;

    /// Records a frozen plan that it [supports](Self::supports) and whose buffers wgpu has checked. Reuses the
    /// pipelines of other recordings that exist.
    fn record(&self, on: &RecordingDevice<'_>, frozen: &FrozenPlan) -> Result<Option<Arc<dyn NativeReplay>>>;

    /// Whether a buffer was destroyed by its owner.
    fn is_destroyed(&self, block: &Block) -> bool;
}

/// The parts of the device that a recorder needs.
pub(crate) struct RecordingDevice<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) limits: &'a Limits,
    pub(crate) compiler: &'a WgpuCompiler,
    pub(crate) kernels: &'a Arc<KernelCache>,
    /// The kernel that fills memory with a pattern.
    pub(crate) fill: &'a Kernel,
    /// The first buffer that was created. wgpu frees the buffers of a destroyed device in the order of creation, so
    /// while this one is held, none of them is freed.
    pub(crate) first_buffer: &'a wgpu::Buffer,
    pub(crate) counters: &'a Arc<Counters>,
    /// Whether replays may be submitted directly, bypassing wgpu.
    pub(crate) direct: bool,
}

impl FrozenPlan {
    /// The device's own recording, if there is one.
    pub(super) fn native_replay(&self) -> Option<&Arc<dyn NativeReplay>> {
        self.native.as_ref()?.downcast_ref()
    }

    pub(super) fn set_native(&mut self, native: Option<Arc<dyn NativeReplay>>) {
        self.native = native.map(|native| Box::new(native) as _);
    }
}
