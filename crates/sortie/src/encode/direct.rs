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
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// Says when a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence(vk::Fence);

pub(super) struct Direct {
    device: ash::Device,
    queue: vk::Queue,
    /// One for each submission.
    primaries: Vec<vk::CommandBuffer>,
    /// Those that no run uses.
    idle: Mutex<Vec<Fence>>,
}

impl Direct {
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
            for (primary, secondary) in primaries.iter().zip(secondaries) {
                device.begin_command_buffer(*primary, &begin)?;
                device.cmd_execute_commands(*primary, &[*secondary]);
                device.end_command_buffer(*primary)?;
            }
            primaries
        };
        Ok(Self { device: device.clone(), queue, primaries, idle: Mutex::default() })
    }

    /// Submits one of its submissions. The caller has the turn, and knows that nobody else has the queue.
    pub(super) fn launch(&self, part: usize) -> Result<Fence> {
        let idle = self.idle.lock().pop();
        let buffers = [self.primaries[part]];
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the fence is nobody else's and not pending; nobody else uses the queue, which is this device's; the commands are executable, may be pending more than
        // once at a time, and are held, with all they touch, until the fence is signaled.
        let outcome = unsafe {
            let fence = match idle {
                Some(Fence(fence)) => self.device.reset_fences(&[fence]).map(|()| fence),
                None => self.device.create_fence(&vk::FenceCreateInfo::default(), None),
            };
            fence.and_then(|fence| {
                let submitted = self.device.queue_submit(self.queue, &[submit], fence);
                submitted.map(|()| Fence(fence)).inspect_err(|_| self.idle.lock().push(Fence(fence)))
            })
        };
        outcome.map_err(failed)
    }

    /// Waits until a run is done. Vulkan ends that when the device is lost.
    pub(super) fn wait(&self, fence: Fence) -> Result<()> {
        // SAFETY: the fence is this device's, and nobody destroys or resets it before it has been given back.
        unsafe { self.device.wait_for_fences(&[fence.0], true, u64::MAX) }.map_err(failed)
    }

    /// The run is done. What says so may have been a later submission's fence, and its own not be signaled yet.
    pub(super) fn give_back(&self, fence: Fence) {
        if self.wait(fence).is_ok() {
            self.idle.lock().push(fence);
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // SAFETY: whoever has a fence holds this too, so all of them have been given back or belong to runs of a lost device.
        self.idle.get_mut().iter().for_each(|fence| unsafe { self.device.destroy_fence(fence.0, None) });
    }
}

fn failed(error: vk::Result) -> Error {
    match error {
        vk::Result::ERROR_DEVICE_LOST => Error::new(ErrorKind::DeviceLost, "Vulkan says that the device is lost"),
        error => Error::internal(format!("Vulkan refused a run of a replay: {error}")),
    }
}
