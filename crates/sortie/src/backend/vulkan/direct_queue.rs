//! Runs of native replays that bring nothing and ask for nothing: they go to Vulkan's queue themselves, past wgpu.
//!
//! A queue takes one submission at a time, and wgpu does not let others wait for its own. So these facts make it right:
//! - whoever submits has the turn of the submit line, as every call of `queue.submit` of ours has;
//! - nobody else has the queue: the device is our own, and it is over with this once `Device::wgpu` has given it away (the submitter sees to that);
//! - no other call of ours makes wgpu submit: it does so when a buffer is mapped that has writes pending, and those that we map never have;
//! - writes that wgpu has not submitted yet are flushed before;
//! - the secondary begins and ends with a barrier over all memory, and submission order on the one queue does the rest.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use ash::vk;

use crate::{
    backend::wgpu::Timeline,
    error::{Error, ErrorKind, Result},
};

pub(super) struct DirectQueue {
    device: ash::Device,
    queue: vk::Queue,
    /// One for each submission.
    primaries: Vec<vk::CommandBuffer>,
}

impl DirectQueue {
    /// Writes a primary command buffer for each secondary. They go with the pool.
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
        // SAFETY: the pool is this device's, and nobody else uses it; the secondaries are executable, may be pending more than once at a time, and live as
        // long as the pool.
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

    /// Submits one of its submissions, and returns the value of the timeline that says when it is done. The caller has the turn, and knows that nobody else
    /// has the queue.
    pub(super) fn launch(&self, part: usize, timeline: &Timeline) -> Result<u64> {
        let (semaphore, value) = timeline.next();
        let (buffers, semaphores, values) = ([self.primaries[part]], [semaphore], [value]);
        let mut signals = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit =
            vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&semaphores).push_next(&mut signals);
        // SAFETY: nobody else uses the queue, which is this device's, as is the semaphore, whose values grow from submission to submission; the commands are executable, may be
        // pending more than once at a time, and are held, with all they touch, until the value is reached.
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
