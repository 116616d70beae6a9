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
//! A run that is not cut is one submission: copies of the data that it brings, the secondary, copies of what it reads.
//! Its cost does not depend on the length of the recording. `run_memory` has the data of a run, and on a device of our
//! own it is submitted without wgpu: see `direct_queue`.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

mod descriptors;
mod direct_queue;
mod indirect;
mod pipelines;
mod run_memory;
mod spirv_target;
mod writer;

use std::{any::Any, sync::Arc};

use ash::vk;
use sortie_plan::Access;

use self::{
    direct_queue::DirectQueue,
    pipelines::{KnownPipelines, Pipelines},
    run_memory::{RunSlots, VulkanRunMemory},
    spirv_target::SpirvTarget,
    writer::CommandWriter,
};
use crate::{
    backend::wgpu::{Gpu, NativeCounts, NativeReplay, RecordingDevice, ReplayRecorder, RunMemory, Timeline, buffer},
    error::{Error, Result},
    exit,
    memory::{Block, Usage},
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
    /// The pipelines it uses.
    pipelines: Pipelines,
    counts: NativeCounts,
    /// Memory for the data of runs, if runs have data.
    slots: Option<RunSlots>,
    /// For runs that do not need wgpu, on a device of our own.
    direct: Option<DirectQueue>,
    /// Keeps the device alive; dropped last.
    _gpu: wgpu::Device,
}

/// Records replays for Vulkan.
#[derive(Default)]
pub(crate) struct VulkanRecorder {
    pipelines: KnownPipelines,
}

impl ReplayRecorder for VulkanRecorder {
    fn supports(&self, gpu: &Gpu, frozen: &FrozenPlan) -> bool {
        // SAFETY: only its presence is checked.
        let vulkan = unsafe { gpu.as_hal::<Api>() }.is_some();
        // Counts are checked by a kernel, which an imported buffer may not allow.
        let checkable = |access: &Access| frozen.placed(None).block_of(access.slot).allows(Usage::Storage);
        vulkan && !frozen.cuts().is_empty() && frozen.planned.indirect_counts().all(checkable)
    }

    fn record(&self, on: &RecordingDevice<'_>, frozen: &FrozenPlan) -> Result<Option<Arc<dyn NativeReplay>>> {
        Ok(VulkanReplay::record(on, frozen, &self.pipelines)?.map(|replay| Arc::new(replay) as _))
    }

    fn is_destroyed(&self, block: &Block) -> bool {
        raw(block) == vk::Buffer::null()
    }
}

impl VulkanReplay {
    fn record(on: &RecordingDevice<'_>, frozen: &FrozenPlan, known: &KnownPipelines) -> Result<Option<Self>> {
        let gpu: &wgpu::Device = on.gpu;
        // SAFETY: nothing is destroyed through the guard; the device outlives it.
        let Some(hal) = (unsafe { gpu.as_hal::<Api>() }) else { return Ok(None) };
        let device = hal.raw_device().clone();
        let target = SpirvTarget::of(&hal, gpu);
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(hal.queue_family_index());
        // SAFETY: the device is alive, and the family is that of its queue.
        let pool = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        let queue = hal.raw_queue();
        // SAFETY: the physical device belongs to this instance.
        let memory_types = unsafe {
            hal.shared_instance().raw_instance().get_physical_device_memory_properties(hal.raw_physical_device())
        };
        drop(hal);
        let mut replay = Self {
            device,
            pool,
            commands: Vec::new(),
            descriptors: Vec::new(),
            pipelines: Pipelines::default(),
            counts: NativeCounts::default(),
            slots: None,
            direct: None,
            _gpu: gpu.clone(),
        };
        let mut writer = CommandWriter::new(on, frozen, target, known, &mut replay);
        writer.find_buffers()?;
        writer.compile()?;
        // A destroyed device frees its buffers, and Vulkan must not be given freed ones. wgpu frees none while this is
        // held.
        // SAFETY: nothing is destroyed through the guard.
        let Some(held) = (unsafe { on.first_buffer.as_hal::<Api>() }) else { return Err(gone()) };
        let (uploads, reads) = writer.write()?;
        if !uploads.is_empty() || !reads.is_empty() {
            replay.slots = Some(RunSlots::new(uploads, reads, memory_types, on.counters.clone()));
        }
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

    fn run_memory(self: Arc<Self>, fill: &mut dyn FnMut(&mut [u8])) -> Result<Option<Arc<dyn RunMemory>>> {
        Ok(self.take_slot(fill)?.map(|memory| Arc::new(memory) as _))
    }

    fn execute(&self, part: usize, memory: Option<&dyn RunMemory>, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        let memory = memory.and_then(run_memory);
        // SAFETY: this encoder is used for nothing else; its command buffer is being recorded and is not ended here.
        // The secondary is executable, allows simultaneous use, and belongs to the same device and queue family.
        let recorded = unsafe {
            encoder.as_hal_mut::<Api, _, _>(|encoder| {
                let raw = encoder.map(|encoder| encoder.raw_handle());
                raw.map(|raw| match memory {
                    Some(memory) => memory.write_part(raw, part),
                    None => self.device.cmd_execute_commands(raw, &[self.commands[part]]),
                })
            })
        };
        recorded.ok_or_else(|| Error::internal("wgpu gave no command buffer for a native replay"))
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn submit(&self, part: usize, memory: Option<&dyn RunMemory>, timeline: &Timeline) -> Result<u64> {
        match &self.direct {
            Some(direct) => {
                let commands = memory.and_then(run_memory).map(|memory| memory.primary(part));
                direct.launch(commands.unwrap_or_else(|| direct.primary(part)), timeline)
            }
            None => Err(Error::internal("a replay without commands of its own was submitted past wgpu")),
        }
    }
}

impl Drop for VulkanReplay {
    fn drop(&mut self) {
        let _inside = exit::enter();
        if let Some(slots) = &mut self.slots {
            slots.free(&self.device);
        }
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

/// The memory of a run, if it is one of Vulkan's.
fn run_memory(memory: &dyn RunMemory) -> Option<&VulkanRunMemory> {
    (memory as &dyn Any).downcast_ref()
}

/// Vulkan's handle of a block's buffer.
fn raw(block: &Block) -> vk::Buffer {
    // SAFETY: the handle is not destroyed, because its user holds the block.
    unsafe {
        let buffer = buffer(block).ok().and_then(|buffer| buffer.as_hal::<Api>());
        buffer.map_or(vk::Buffer::null(), |buffer| buffer.raw_handle())
    }
}

/// `VulkanRecorder::supports` excludes recordings with these steps.
fn unsuitable() -> Error {
    Error::internal("a native replay cannot do this step")
}
