//! A Vulkan timeline semaphore. Every submission of a device signals its own value.
//!
//! wgpu itself can only be waited for without a timeout: `poll` with a timeout panics when another thread's poll sees
//! the work done at the moment the timeout ends (wgpu-core 30.0.1, `device/resource.rs`). This semaphore can be waited
//! for in slices, so that a lost device and an exiting process are noticed while a kernel runs.
//!
//! wgpu attaches the signal to the next submission of its queue. On a queue that others use too, that may be one of
//! theirs, and the value is signaled early. On a shared queue a reached value is only a hint, and wgpu must confirm it.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ash::{khr, vk};

type Api = wgpu::hal::api::Vulkan;

/// The driver reported that the device is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverLost;

pub(crate) struct Timeline {
    device: ash::Device,
    /// Set if timeline semaphores are an extension; they are core in Vulkan 1.2.
    extension: Option<khr::timeline_semaphore::Device>,
    semaphore: vk::Semaphore,
    /// The value of the newest submission. Values grow in submission order.
    newest: AtomicU64,
    /// Keeps the device alive; dropped last.
    _gpu: wgpu::Device,
}

impl Timeline {
    /// `None` on backends other than Vulkan, and without timeline semaphores.
    pub(crate) fn new(gpu: &wgpu::Device) -> Option<Self> {
        // SAFETY: nothing is destroyed through the guard; the device outlives it.
        let hal = unsafe { gpu.as_hal::<Api>() }?;
        let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
        let extended = hal.enabled_device_extensions().contains(&khr::timeline_semaphore::NAME);
        let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut asked = vk::PhysicalDeviceFeatures2::default().push_next(&mut timelines);
        // SAFETY: the physical device belongs to this instance, and the structures have the types they declare. The
        // second call exists, because Vulkan 1.2 or wgpu's use of the extension implies it.
        let promoted = unsafe {
            let version = instance.get_physical_device_properties(physical).api_version;
            if version >= vk::API_VERSION_1_2 || extended {
                instance.get_physical_device_features2(physical, &mut asked);
            }
            version >= vk::API_VERSION_1_2
        };
        // wgpu enables the feature if it is supported.
        if timelines.timeline_semaphore != vk::TRUE || !(promoted || extended) {
            return None;
        }
        let device = hal.raw_device().clone();
        let extension = extended.then(|| khr::timeline_semaphore::Device::new(instance, &device));
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive and has the feature.
        let semaphore = unsafe { device.create_semaphore(&info, None) }.ok()?;
        drop(hal);
        Some(Self { device, extension, semaphore, newest: AtomicU64::new(0), _gpu: gpu.clone() })
    }

    /// The semaphore, and the value for a direct submission. The caller has the turn of the submit queue.
    pub(crate) fn next(&self) -> (vk::Semaphore, u64) {
        (self.semaphore, self.newest.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Makes the next submission through wgpu signal a value. The caller has the turn of the submit queue, and submits
    /// now.
    pub(crate) fn attach(&self, queue: &wgpu::Queue) -> u64 {
        let (semaphore, value) = self.next();
        // SAFETY: nothing is destroyed through the guard.
        if let Some(queue) = unsafe { queue.as_hal::<Api>() } {
            queue.add_signal_semaphore(semaphore, Some(value));
        }
        value
    }

    /// Removes a signal that no submission used. True if wgpu dropped the submission, as it does when the device was
    /// destroyed.
    pub(crate) fn detach(&self, queue: &wgpu::Queue) -> bool {
        // SAFETY: nothing is destroyed through the guard.
        let queue = unsafe { queue.as_hal::<Api>() };
        queue.is_none_or(|queue| queue.remove_signal_semaphore(self.semaphore))
    }

    /// Waits until a value is reached, at most `limit`. False if it was not reached.
    pub(crate) fn wait(&self, value: u64, limit: Duration) -> Result<bool, DriverLost> {
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore belongs to this device and lives as long as this.
        let outcome = unsafe {
            match &self.extension {
                Some(extension) => extension.wait_semaphores(&info, limit),
                None => self.device.wait_semaphores(&info, limit),
            }
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            // Out of memory, or lost: either way the device can no longer be waited for.
            Err(_) => Err(DriverLost),
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: it was created by this device. The submitter that owns this waits for, or retains, everything that
        // signals it.
        unsafe { self.device.destroy_semaphore(self.semaphore, None) };
    }
}
