//! The seam for native replays: recordings that the device itself keeps. One implementation for each API below wgpu.

use std::{any::Any, fmt, sync::Arc};

use super::{compiler::WgpuCompiler, gpu::Gpu, timeline::Timeline};
use crate::{error::Result, info::Limits, kernel::Kernel, memory::Block, plan::FrozenPlan};

/// A replay that the device has a recording of.
pub(crate) trait NativeReplay: Any + fmt::Debug + Send + Sync {
    /// What one run does.
    fn counts(&self) -> NativeCounts;

    /// Has an encoder, to which nothing else has been or will be given, execute one of its submissions. Fails where the encoder is none of the
    /// API's any more: the device was destroyed.
    fn execute(&self, part: usize, encoder: &mut wgpu::CommandEncoder) -> Result<()>;

    /// Whether it can be submitted past wgpu.
    fn is_direct(&self) -> bool;

    /// Submits one of its submissions past wgpu, and returns the value of the timeline that says when it is done. The caller has the turn of the
    /// submit queue, and knows that nothing else uses the device's.
    fn submit(&self, part: usize, timeline: &Timeline) -> Result<u64>;
}

/// Dispatches and transfers of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NativeCounts {
    pub(crate) dispatches: u64,
    pub(crate) transfers: u64,
}

/// Makes native replays.
pub(crate) trait ReplayRecorder: Send + Sync {
    /// Whether a recording can be written down, without ops that every run must encode.
    fn supports(&self, gpu: &Gpu, frozen: &FrozenPlan) -> bool;

    /// Writes a frozen recording down, which [suits](Self::suits) it and whose buffers wgpu has checked. Uses the pipelines of an earlier
    /// recording of the same kernels.
    fn record(
        &self,
        on: &RecordingDevice<'_>,
        frozen: &FrozenPlan,
        earlier: Option<&dyn NativeReplay>,
    ) -> Result<Option<Arc<dyn NativeReplay>>>;

    /// Whether a buffer has been destroyed by its owner.
    fn is_destroyed(&self, block: &Block) -> bool;
}

/// What a recorder needs of the device.
pub(crate) struct RecordingDevice<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) limits: &'a Limits,
    pub(crate) compiler: &'a WgpuCompiler,
    /// The kernel that fills memory with a pattern.
    pub(crate) fill: &'a Kernel,
    /// The first buffer that was made: wgpu frees the buffers of a destroyed device in the order in which they were made. While this one is held,
    /// none of them goes.
    pub(crate) first_buffer: &'a wgpu::Buffer,
    /// Whether replays may be submitted past wgpu.
    pub(crate) direct: bool,
}

impl FrozenPlan {
    /// The recording that the device has of it.
    pub(super) fn native_replay(&self) -> Option<&Arc<dyn NativeReplay>> {
        self.native.as_ref()?.downcast_ref()
    }

    pub(super) fn set_native(&mut self, native: Option<Arc<dyn NativeReplay>>) {
        self.native = native.map(|native| Box::new(native) as _);
    }
}
