//! Submits runs of native replays directly to Vulkan's queue, bypassing wgpu.
//!
//! A Vulkan queue must be used by one thread at a time, and wgpu does not expose its lock. These facts make it correct:
//! - The submitting thread has the turn of the submit queue, as for every `queue.submit` call of ours.
//! - No other code uses the queue: the device is our own. Once `Device::wgpu` has given it away, this path is no longer
//!   used (see `WgpuQueue::share`).
//! - No other call of ours makes wgpu submit. It does so when a buffer with pending writes is mapped, and the buffers
//!   that we map never have any.
//! - Writes that wgpu has not submitted yet are flushed first.
//! - The secondary command buffer begins and ends with a barrier over all memory, and submission order on the one queue
//!   does the rest.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use ash::vk;

use crate::{
    backend::wgpu::Timeline,
    error::{Error, ErrorKind, Result},
};

pub(super) struct DirectQueue {
    device: ash::Device,
    queue: vk::Queue,
    /// For runs without data, one per submission.
    primaries: Vec<vk::CommandBuffer>,
}

impl DirectQueue {
    /// Records a primary command buffer for each secondary. They are freed with the pool.
    pub(super) fn new(
        device: &ash::Device,
        queue: vk::Queue,
        pool: vk::CommandPool,
        secondaries: &[vk::CommandBuffer],
    ) -> std::result::Result<Self, vk::Result> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(u32::try_from(secondaries.len()).unwrap_or(u32::MAX));
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the pool belongs to this device, and only this thread uses it. The secondaries are executable, allow
        // simultaneous use, and live as long as the pool.
        let primaries = unsafe {
            let primaries = device.allocate_command_buffers(&info)?;
            for (primary, replay) in primaries.iter().zip(secondaries) {
                device.begin_command_buffer(*primary, &begin)?;
                device.cmd_execute_commands(*primary, &[*replay]);
                device.end_command_buffer(*primary)?;
            }
            primaries
        };
        Ok(Self { device: device.clone(), queue, primaries })
    }

    /// The command buffer of one submission of a run without data.
    pub(super) fn primary(&self, part: usize) -> vk::CommandBuffer {
        self.primaries[part]
    }

    /// Submits a command buffer and returns the timeline value that it signals when done. The caller has the turn, and
    /// ensures that no other code uses the queue.
    pub(super) fn launch(&self, commands: vk::CommandBuffer, timeline: &Timeline) -> Result<u64> {
        let (semaphore, value) = timeline.next();
        let (buffers, semaphores, values) = ([commands], [semaphore], [value]);
        let mut signals = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit =
            vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&semaphores).push_next(&mut signals);
        // SAFETY: no other code uses the queue. Queue and semaphore belong to this device, and the semaphore's values
        // grow from submission to submission. The commands are executable, are not in use or allow simultaneous use,
        // and are kept alive, with all their resources, until the value is reached.
        unsafe { self.device.queue_submit(self.queue, &[submit], vk::Fence::null()) }.map_err(failed)?;
        Ok(value)
    }
}

fn failed(error: vk::Result) -> Error {
    match error {
        vk::Result::ERROR_DEVICE_LOST => Error::new(ErrorKind::DeviceLost, "Vulkan says that the device is lost"),
        error => Error::internal(format!("Vulkan refused a run of a replay: {error}")),
    }
}
