//! Replaces the Vulkan module on platforms where wgpu has no Vulkan: no replay is native.

use std::sync::Arc;

use crate::{
    backend::wgpu::{Gpu, NativeReplay, RecordingDevice, ReplayRecorder},
    error::Result,
    memory::Block,
    plan::FrozenPlan,
};

/// Records nothing.
#[derive(Default)]
pub(crate) struct VulkanRecorder;

impl ReplayRecorder for VulkanRecorder {
    fn supports(&self, _: &Gpu, _: &FrozenPlan) -> bool {
        false
    }

    fn record(&self, _: &RecordingDevice<'_>, _: &FrozenPlan) -> Result<Option<Arc<dyn NativeReplay>>> {
        Ok(None)
    }

    fn is_destroyed(&self, _: &Block) -> bool {
        false
    }
}
