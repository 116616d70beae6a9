//! Native replay: a recording is written once into a Vulkan secondary command buffer, which each run executes by one
//! command.
//!
//! wgpu does not know what the secondary does. These facts make it correct:
//! - The secondary begins and ends with a barrier over all memory. So commands that wgpu encodes before and after it,
//!   in encoders of their own, are ordered with it, whatever state wgpu assumes buffers to be in.
//! - Inside, there is a barrier between any two waves of the plan; ops of one wave do not conflict.
//! - Every buffer it uses was initialised through wgpu when the recording was frozen, so wgpu never zeroes one lazily
//!   afterwards.
//! - A submission keeps the replay and its buffers alive until it has completed.
//! - Kernels are compiled from the module that wgpu was given, with the options that wgpu gives naga (see
//!   `spirv_target.rs`): out-of-bounds accesses behave as through wgpu.
//! - Imported buffers, which their owner may destroy, are named to wgpu in every run (`wgpu/replay.rs`), so that wgpu
//!   refuses the submission of a destroyed one.
//!
//! Objects are freed when their last holder drops them, after their last use.
//!
//! A run that is not cut is one submission of three command buffers: copies of the inputs, the secondary, copies of the
//! outputs. Its cost does not depend on the length of the recording. A run without inputs and outputs is submitted
//! without wgpu: see `direct_queue`.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

mod descriptors;
mod direct_queue;
mod pipelines;
mod spirv_target;
mod writer;

use std::{any::Any, sync::Arc};

use ash::vk;

use self::{direct_queue::DirectQueue, pipelines::Pipelines, spirv_target::SpirvTarget, writer::Writer};
use crate::{
    backend::wgpu::{Gpu, NativeCounts, NativeReplay, RecordingDevice, ReplayRecorder, Timeline, buffer},
    error::{Error, Result},
    exit,
    memory::Block,
    plan::FrozenPlan,
};

type Api = wgpu::hal::api::Vulkan;

/// A replay recorded for Vulkan.
pub(crate) struct VulkanReplay {
    device: ash::Device,
    pool: vk::CommandPool,
    /// One per submission.
    commands: Vec<vk::CommandBuffer>,
    descriptors: Vec<vk::DescriptorPool>,
    /// The pipelines it uses. A later recording of the same replay may use them too.
    pipelines: Pipelines,
    counts: NativeCounts,
    /// For runs that do not need wgpu, on a device of our own.
    direct: Option<DirectQueue>,
    /// Keeps the device alive; dropped last.
    _gpu: wgpu::Device,
}

/// Records replays for Vulkan.
pub(crate) struct VulkanRecorder;

impl ReplayRecorder for VulkanRecorder {
    fn supports(&self, gpu: &Gpu, frozen: &FrozenPlan) -> bool {
        let plan = &frozen.planned.plan;
        let plain = plan.writes.is_empty() && plan.reads.is_empty() && !plan.has_indirect();
        // SAFETY: only its presence is checked.
        let vulkan = unsafe { gpu.as_hal::<Api>() }.is_some();
        vulkan && !frozen.cuts().is_empty() && plain
    }

    fn record(
        &self,
        on: &RecordingDevice<'_>,
        frozen: &FrozenPlan,
        earlier: Option<&dyn NativeReplay>,
    ) -> Result<Option<Arc<dyn NativeReplay>>> {
        let earlier = earlier.and_then(|earlier| (earlier as &dyn Any).downcast_ref());
        Ok(VulkanReplay::record(on, frozen, earlier)?.map(|replay| Arc::new(replay) as _))
    }

    fn is_destroyed(&self, block: &Block) -> bool {
        raw(block) == vk::Buffer::null()
    }
}

impl VulkanReplay {
    fn record(on: &RecordingDevice<'_>, frozen: &FrozenPlan, earlier: Option<&Self>) -> Result<Option<Self>> {
        let gpu: &wgpu::Device = on.gpu;
        // SAFETY: nothing is destroyed through the guard; the device outlives it.
        let Some(hal) = (unsafe { gpu.as_hal::<Api>() }) else { return Ok(None) };
        let device = hal.raw_device().clone();
        let target = SpirvTarget::of(&hal, gpu);
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(hal.queue_family_index());
        // SAFETY: the device is alive, and the family is that of its queue.
        let pool = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        let queue = hal.raw_queue();
        drop(hal);
        let mut replay = Self {
            device,
            pool,
            commands: Vec::new(),
            descriptors: Vec::new(),
            pipelines: Pipelines::default(),
            counts: NativeCounts::default(),
            direct: None,
            _gpu: gpu.clone(),
        };
        let known = earlier.map(|earlier| &earlier.pipelines);
        let mut writer = Writer::new(on, frozen, target, known, &mut replay);
        writer.find_buffers()?;
        writer.compile()?;
        // A destroyed device frees its buffers, and Vulkan must not be given freed ones. wgpu frees none while this is
        // held.
        // SAFETY: nothing is destroyed through the guard.
        let Some(held) = (unsafe { on.first_buffer.as_hal::<Api>() }) else { return Err(gone()) };
        writer.write()?;
        drop(held);
        if on.direct && frozen.imported.is_empty() {
            let direct = DirectQueue::new(&replay.device, queue, replay.pool, &replay.commands).map_err(refused)?;
            replay.direct = Some(direct);
        }
        Ok(Some(replay))
    }
}

impl NativeReplay for VulkanReplay {
    fn counts(&self) -> NativeCounts {
        self.counts
    }

    fn execute(&self, part: usize, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        // SAFETY: this encoder is used for nothing else; its command buffer is being recorded and is not ended here.
        // The secondary is executable, allows simultaneous use, and belongs to the same device and queue family.
        let recorded = unsafe {
            encoder.as_hal_mut::<Api, _, _>(|encoder| {
                let raw = encoder.map(|encoder| encoder.raw_handle());
                raw.map(|raw| self.device.cmd_execute_commands(raw, &[self.commands[part]]))
            })
        };
        recorded.ok_or_else(|| Error::internal("wgpu gave no command buffer for a native replay"))
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn submit(&self, part: usize, timeline: &Timeline) -> Result<u64> {
        match &self.direct {
            Some(direct) => direct.launch(part, timeline),
            None => Err(Error::internal("a replay without commands of its own was submitted past wgpu")),
        }
    }
}

impl Drop for VulkanReplay {
    fn drop(&mut self) {
        let _inside = exit::enter();
        // SAFETY: all objects were created by this device, which is alive. The submitter held this until the commands
        // were done.
        unsafe {
            self.device.destroy_command_pool(self.pool, None);
            self.descriptors.iter().for_each(|pool| self.device.destroy_descriptor_pool(*pool, None));
        }
    }
}

fn refused(error: vk::Result) -> Error {
    Error::internal(format!("Vulkan refused a native replay: {error}"))
}

fn gone() -> Error {
    Error::internal("a buffer of a native replay is gone")
}

/// Vulkan's handle of a block's buffer.
fn raw(block: &Block) -> vk::Buffer {
    // SAFETY: the handle is not destroyed, because its user holds the block.
    unsafe {
        let buffer = buffer(block).ok().and_then(|buffer| buffer.as_hal::<Api>());
        buffer.map_or(vk::Buffer::null(), |buffer| buffer.raw_handle())
    }
}
