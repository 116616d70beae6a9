//! Native replay: a recording written once into a Vulkan secondary command buffer, and executed by one command in every run.
//!
//! wgpu does not know what the secondary does, so these facts make it right:
//! - the secondary begins and ends with a barrier over all memory, so that what wgpu encodes before and after it, in encoders of their own, is in
//!   order with it whatever state wgpu believes buffers to be in;
//! - inside, there is a barrier between any two waves of the plan; ops of one wave do not conflict;
//! - every buffer it touches was initialised through wgpu when the recording was frozen, so that wgpu never zeroes one lazily afterwards;
//! - whoever submits it holds its buffers, and this, until the submission is done;
//! - kernels are compiled from the module that wgpu was given, with the options that wgpu gives naga (see [`target`]): out-of-bounds accesses do what
//!   they do through wgpu;
//! - imported buffers, which their owner may destroy, are named to wgpu in every run (see [`super::Wgpu::replay`]): it refuses the submission then.
//!
//! Objects are freed when the last holder lets go, which is after the last use.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

mod descriptors;
mod pipelines;
mod target;
mod writer;

use std::sync::Arc;

use ash::vk;
use sortie_plan::Lane;

use self::{pipelines::Pipelines, target::Target, writer::Writer};
use super::{Frozen, direct::Direct};
use crate::{
    backend::wgpu::buffer,
    device::Shared,
    error::{Error, Result},
    exit,
    memory::Block,
};

type Api = wgpu::hal::api::Vulkan;

/// A recording as Vulkan has it.
pub(crate) struct Secondary {
    device: ash::Device,
    pool: vk::CommandPool,
    /// One for each submission.
    commands: Vec<vk::CommandBuffer>,
    descriptors: Vec<vk::DescriptorPool>,
    /// Those that it uses; a later recording of the same replay may use them too.
    pipelines: Pipelines,
    dispatches: u64,
    transfers: u64,
    /// For runs that need nothing of wgpu's, on a device of our own.
    direct: Option<Direct>,
    /// Keeps the device alive; dropped last.
    _gpu: wgpu::Device,
}

impl Secondary {
    /// Whether a recording can be written down: on Vulkan, without ops that every run must encode.
    pub(super) fn suits(shared: &Shared, frozen: &Frozen) -> bool {
        let plan = &frozen.planned.plan;
        let plain = plan.writes.is_empty() && plan.reads.is_empty() && !plan.has_indirect();
        // SAFETY: nothing is done with it.
        let vulkan = unsafe { shared.gpu().as_hal::<Api>() }.is_some();
        vulkan && !frozen.cuts().is_empty() && plain
    }

    /// Writes a frozen recording down, which [suits](Self::suits) it and whose buffers wgpu has checked. Uses the pipelines of an earlier recording of the same
    /// kernels.
    pub(super) fn record(shared: &Arc<Shared>, frozen: &Frozen, earlier: Option<&Self>) -> Result<Option<Self>> {
        let gpu: &wgpu::Device = shared.gpu();
        // SAFETY: nothing is destroyed through the guard; the device outlives it.
        let Some(hal) = (unsafe { gpu.as_hal::<Api>() }) else { return Ok(None) };
        let device = hal.raw_device().clone();
        let target = Target::of(&hal, gpu);
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(hal.queue_family_index());
        // SAFETY: the device is alive; the family is that of its queue.
        let pool = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        let queue = hal.raw_queue();
        drop(hal);
        let mut secondary = Self {
            device,
            pool,
            commands: Vec::new(),
            descriptors: Vec::new(),
            pipelines: Pipelines::default(),
            dispatches: 0,
            transfers: 0,
            direct: None,
            _gpu: gpu.clone(),
        };
        let known = earlier.map(|earlier| &earlier.pipelines);
        let patterns = frozen.planned.plan.fills.iter().any(|fill| fill.lane() == Lane::Compute);
        let fill = if patterns { Some(shared.executor().fill_kernel(shared)?) } else { None };
        let mut writer = Writer::new(shared, frozen, fill, target, known, &mut secondary);
        writer.find_buffers()?;
        writer.compile()?;
        // A destroyed device frees its buffers, and Vulkan must not be given what is freed. Not while this one is held.
        // SAFETY: nothing is destroyed through the guard.
        let Some(held) = (unsafe { shared.first_buffer().as_hal::<Api>() }) else { return Err(gone()) };
        writer.write()?;
        drop(held);
        if !shared.gpu().guest() && frozen.imported.is_empty() && shared.submitter().has_timeline() {
            let direct = Direct::new(&secondary.device, queue, secondary.pool, &secondary.commands).map_err(refused)?;
            secondary.direct = Some(direct);
        }
        Ok(Some(secondary))
    }

    /// What submits it past wgpu, where that may be.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }

    /// Dispatches and transfers of a run.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.dispatches, self.transfers]
    }

    /// Has an encoder, to which nothing else has been or will be given, execute one of its submissions. Fails where the encoder is none of Vulkan's any more: the device was destroyed.
    pub(super) fn execute(&self, part: usize, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        // SAFETY: nothing else is done with this encoder; its command buffer is being recorded and is not ended here. The secondary is
        // executable, may be pending more than once at a time, and is of the same device and queue family.
        let recorded = unsafe {
            encoder.as_hal_mut::<Api, _, _>(|encoder| {
                let raw = encoder.map(|encoder| encoder.raw_handle());
                raw.map(|raw| self.device.cmd_execute_commands(raw, &[self.commands[part]]))
            })
        };
        recorded.ok_or_else(|| Error::internal("wgpu gave no command buffer for a native replay"))
    }
}

impl Drop for Secondary {
    fn drop(&mut self) {
        let _inside = exit::enter();
        // SAFETY: all of it was made by this device, which lives; whoever submitted the commands held this until they were done.
        unsafe {
            self.device.destroy_command_pool(self.pool, None);
            self.descriptors.iter().for_each(|pool| self.device.destroy_descriptor_pool(*pool, None));
        }
    }
}

impl std::fmt::Debug for Secondary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secondary").field("dispatches", &self.dispatches).finish_non_exhaustive()
    }
}

fn refused(error: vk::Result) -> Error {
    Error::internal(format!("Vulkan refused a native replay: {error}"))
}

fn gone() -> Error {
    Error::internal("a buffer of a native replay is gone")
}

/// Whether a buffer has been destroyed by its owner.
pub(super) fn is_gone(block: &Block) -> bool {
    raw(block) == vk::Buffer::null()
}

/// Vulkan's handle of a block's buffer.
fn raw(block: &Block) -> vk::Buffer {
    // SAFETY: the handle is not destroyed; who uses it holds the block.
    unsafe {
        let buffer = buffer(block).ok().and_then(|buffer| buffer.as_hal::<Api>());
        buffer.map_or(vk::Buffer::null(), |buffer| buffer.raw_handle())
    }
}
