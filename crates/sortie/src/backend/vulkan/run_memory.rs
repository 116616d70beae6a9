//! Host memory for the data that runs of a native replay bring and take, and the commands that copy it.
//!
//! Each run takes a slot of mapped memory with a primary command buffer per submission, recorded once: it copies the
//! uploaded data to the device, executes the secondary, and copies what is read back to the host. So a run with data
//! costs a `memcpy` more than one without.
//!
//! Invariant: a slot is in use until its run is done and the last reading of it is dropped.
//!
//! Bound: [`MAX_RUNS_WITH_DATA`] per replay. While all are in use, runs are encoded instead.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use std::{ptr::NonNull, sync::Arc, time::Duration};

use ash::vk;
use parking_lot::Mutex;

use super::{VulkanReplay, refused};
use crate::{
    backend::wgpu::RunMemory,
    error::{Error, Result},
    finish::{PendingReadback, ReadReady},
    metrics::{AtomicCounter, Counters},
    plan::MAX_RUNS_WITH_DATA,
};

/// A copy between a slot's memory and a buffer of the replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunCopy {
    pub(super) buffer: vk::Buffer,
    /// Offset in the slot's memory.
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The slots of a replay.
pub(super) struct RunSlots {
    /// Copies from the uploaded data, before the secondary of the first submission.
    uploads: Vec<RunCopy>,
    /// Copies to the readback, after the secondary of the last submission.
    reads: Vec<RunCopy>,
    memory_types: vk::PhysicalDeviceMemoryProperties,
    counters: Arc<Counters>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    free: Vec<Slot>,
    /// Those in use included.
    count: usize,
}

/// The memory of one run.
#[derive(Debug)]
struct Slot {
    upload: Option<HostBuffer>,
    readback: Option<HostBuffer>,
    /// One per submission.
    primaries: Vec<vk::CommandBuffer>,
}

/// A buffer in mapped, coherent host memory.
#[derive(Debug)]
struct HostBuffer {
    raw: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is a piece of memory with one owner; the pointer is valid on every thread.
unsafe impl Send for HostBuffer {}
// SAFETY: shared access only reads it.
unsafe impl Sync for HostBuffer {}

/// A slot in use by one run. Returned to the replay when dropped.
pub(super) struct VulkanRunMemory {
    replay: Arc<VulkanReplay>,
    /// Taken only in `drop`.
    slot: Option<Slot>,
}

fn end(copies: &[RunCopy]) -> u64 {
    copies.iter().map(|copy| copy.at + copy.bytes).max().unwrap_or(0)
}

impl RunSlots {
    pub(super) fn new(
        uploads: Vec<RunCopy>,
        reads: Vec<RunCopy>,
        memory_types: vk::PhysicalDeviceMemoryProperties,
        counters: Arc<Counters>,
    ) -> Self {
        Self { uploads, reads, memory_types, counters, slots: Mutex::default() }
    }

    /// Frees all slots. None is in use.
    pub(super) fn free(&mut self, device: &ash::Device) {
        let buffers = self.slots.get_mut().free.drain(..).flat_map(|slot| slot.upload.into_iter().chain(slot.readback));
        let bytes = buffers.map(|buffer| buffer.free(device)).sum();
        self.counters.run_memory_bytes.sub(bytes);
    }
}

impl VulkanReplay {
    /// A slot for a run, with the data that `fill` writes. `None` if all are in use.
    pub(super) fn take_slot(self: &Arc<Self>, fill: &mut dyn FnMut(&mut [u8])) -> Result<Option<VulkanRunMemory>> {
        let Some(own) = &self.slots else { return Ok(None) };
        let mut slots = own.slots.lock();
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.count == MAX_RUNS_WITH_DATA => return Ok(None),
            None => {
                // The lock also guards the command pool.
                let slot = self.new_slot(own)?;
                slots.count += 1;
                slot
            }
        };
        drop(slots);
        let mut memory = VulkanRunMemory { replay: self.clone(), slot: Some(slot) };
        if let Some(upload) = memory.slot.as_mut().and_then(|slot| slot.upload.as_mut()) {
            fill(upload.bytes_mut());
        }
        Ok(Some(memory))
    }

    fn new_slot(&self, own: &RunSlots) -> Result<Slot> {
        let buffer = |copies: &[RunCopy], usage| match end(copies) {
            0 => Ok(None),
            bytes => HostBuffer::new(&self.device, &own.memory_types, bytes, usage).map(Some).map_err(refused),
        };
        // Complete or not, what exists is freed if the rest fails.
        let mut slot = Slot { upload: None, readback: None, primaries: Vec::new() };
        let made = (|| {
            slot.upload = buffer(&own.uploads, vk::BufferUsageFlags::TRANSFER_SRC)?;
            slot.readback = buffer(&own.reads, vk::BufferUsageFlags::TRANSFER_DST)?;
            slot.primaries = self.primaries(&slot).map_err(refused)?;
            Ok(())
        })();
        let buffers = || slot.upload.iter().chain(&slot.readback);
        if made.is_ok() {
            own.counters.buffers_created.add(buffers().count() as u64);
            own.counters.run_memory_bytes.add(buffers().map(|buffer| buffer.bytes as u64).sum());
            return Ok(slot);
        }
        slot.upload.into_iter().chain(slot.readback).for_each(|buffer| _ = buffer.free(&self.device));
        made.map(|()| unreachable!("it failed"))
    }

    /// The primary command buffers of a slot. They are freed with the pool.
    fn primaries(&self, slot: &Slot) -> std::result::Result<Vec<vk::CommandBuffer>, vk::Result> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(u32::try_from(self.commands.len()).unwrap_or(u32::MAX));
        // SAFETY: the caller holds the lock that guards the pool.
        let primaries = unsafe { self.device.allocate_command_buffers(&info)? };
        for (part, primary) in primaries.iter().enumerate() {
            // SAFETY: the command buffer is new, and the pool is guarded as above.
            unsafe {
                self.device.begin_command_buffer(*primary, &vk::CommandBufferBeginInfo::default())?;
                self.write_part(*primary, part, slot);
                self.device.end_command_buffer(*primary)?;
            }
        }
        Ok(primaries)
    }

    /// Records one submission of a run.
    ///
    /// # Safety
    /// The command buffer is being recorded, outside of a render pass, and nothing else records it.
    unsafe fn write_part(&self, into: vk::CommandBuffer, part: usize, slot: &Slot) {
        let (device, Some(own)) = (&self.device, &self.slots) else { return };
        let region = |copy: &RunCopy, upload: bool| {
            let (src_offset, dst_offset) = if upload { (copy.at, 0) } else { (0, copy.at) };
            [vk::BufferCopy { src_offset, dst_offset, size: copy.bytes }]
        };
        // SAFETY: the buffers live as long as the replay, which the run keeps alive, and contain the regions. The
        // secondary begins and ends with a barrier over all memory, which orders it with these copies, and the copies
        // with those of earlier and later runs.
        unsafe {
            if let Some(upload) = slot.upload.as_ref().filter(|_| part == 0) {
                for copy in &own.uploads {
                    device.cmd_copy_buffer(into, upload.raw, copy.buffer, &region(copy, true));
                }
            }
            device.cmd_execute_commands(into, &[self.commands[part]]);
            if let Some(readback) = slot.readback.as_ref().filter(|_| part + 1 == self.commands.len()) {
                for copy in &own.reads {
                    device.cmd_copy_buffer(into, copy.buffer, readback.raw, &region(copy, false));
                }
                let (copies, host) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
                let visible = vk::MemoryBarrier::default()
                    .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .dst_access_mask(vk::AccessFlags::HOST_READ);
                device.cmd_pipeline_barrier(into, copies, host, vk::DependencyFlags::empty(), &[visible], &[], &[]);
            }
        }
    }
}

impl VulkanRunMemory {
    fn slot(&self) -> &Slot {
        self.slot.as_ref().unwrap_or_else(|| unreachable!("taken only in drop"))
    }

    /// The command buffer of one submission, for Vulkan's queue.
    pub(super) fn primary(&self, part: usize) -> vk::CommandBuffer {
        self.slot().primaries[part]
    }

    /// Records one submission into another command buffer.
    ///
    /// # Safety
    /// As `VulkanReplay::write_part`.
    pub(super) unsafe fn write_part(&self, into: vk::CommandBuffer, part: usize) {
        // SAFETY: the caller ensures it.
        unsafe { self.replay.write_part(into, part, self.slot()) };
    }
}

impl std::fmt::Debug for VulkanRunMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanRunMemory").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl RunMemory for VulkanRunMemory {
    fn pending(self: Arc<Self>) -> Arc<dyn PendingReadback> {
        self
    }
}

/// The memory is always mapped: its data is there when the run is done.
impl PendingReadback for VulkanRunMemory {
    fn mapped(&self) -> Option<bool> {
        Some(true)
    }

    fn wait_mapped(&self, _limit: Duration) {}

    fn ready(self: Arc<Self>) -> Arc<dyn ReadReady> {
        self
    }
}

impl ReadReady for VulkanRunMemory {
    fn with(&self, at: u64, bytes: usize, then: &mut dyn FnMut(&[u8])) -> Result<()> {
        let missing = || Error::internal("a run finished without its readback");
        let readback = self.slot().readback.as_ref().ok_or_else(missing)?.bytes();
        let start = usize::try_from(at).map_err(|_| missing())?;
        then(readback.get(start..start + bytes).ok_or_else(missing)?);
        Ok(())
    }

    /// The next run uses the memory again.
    fn take(&self, _at: u64) -> Option<Vec<u32>> {
        None
    }
}

impl Drop for VulkanRunMemory {
    fn drop(&mut self) {
        if let (Some(slot), Some(own)) = (self.slot.take(), &self.replay.slots) {
            own.slots.lock().free.push(slot);
        }
    }
}

impl HostBuffer {
    fn new(
        device: &ash::Device,
        memory_types: &vk::PhysicalDeviceMemoryProperties,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> std::result::Result<Self, vk::Result> {
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device is alive. What was created is destroyed if the rest fails, and not used before.
        unsafe {
            let raw = device.create_buffer(&info, None)?;
            let (memory, mapped) = match Self::map(device, memory_types, raw) {
                Ok(mapped) => mapped,
                Err(error) => {
                    device.destroy_buffer(raw, None);
                    return Err(error);
                }
            };
            let bytes = usize::try_from(bytes).map_err(|_| vk::Result::ERROR_OUT_OF_HOST_MEMORY)?;
            // Memory of the driver is not zeroed; reading what was never written must not be undefined.
            mapped.write_bytes(0, bytes);
            Ok(Self { raw, memory, mapped, bytes })
        }
    }

    /// Gives a buffer mapped memory.
    ///
    /// # Safety
    /// The buffer is new and belongs to the device.
    unsafe fn map(
        device: &ash::Device,
        memory_types: &vk::PhysicalDeviceMemoryProperties,
        raw: vk::Buffer,
    ) -> std::result::Result<(vk::DeviceMemory, NonNull<u8>), vk::Result> {
        // SAFETY: the caller ensures it; the memory is new, host-visible and large enough.
        unsafe {
            let needs = device.get_buffer_memory_requirements(raw);
            let kind =
                memory_type(memory_types, needs.memory_type_bits).ok_or(vk::Result::ERROR_FEATURE_NOT_PRESENT)?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
            let memory = device.allocate_memory(&info, None)?;
            let mapped = device
                .bind_buffer_memory(raw, memory, 0)
                .and_then(|()| device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()))
                .and_then(|mapped| NonNull::new(mapped.cast()).ok_or(vk::Result::ERROR_MEMORY_MAP_FAILED));
            mapped.map(|mapped| (memory, mapped)).inspect_err(|_| device.free_memory(memory, None))
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this size and is initialised. The device does not write it while it is read: the run
        // is done, and the next run gets the slot when this handle is dropped.
        unsafe { std::slice::from_raw_parts(self.mapped.as_ptr(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the device does not use the slot before the run is submitted.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.as_ptr(), self.bytes) }
    }

    /// Frees it and returns its bytes. The device does not use it.
    fn free(self, device: &ash::Device) -> u64 {
        // SAFETY: both were created by this device, and no run uses them.
        unsafe {
            device.destroy_buffer(self.raw, None);
            device.free_memory(self.memory, None);
        }
        self.bytes as u64
    }
}

/// Coherent host memory, cached if there is such. Vulkan guarantees a coherent type for every buffer.
fn memory_type(types: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<u32> {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let find = |wanted: vk::MemoryPropertyFlags| {
        let fits = |kind: &u32| {
            allowed & (1 << kind) != 0 && types.memory_types[*kind as usize].property_flags.contains(wanted)
        };
        (0..types.memory_type_count).find(fits)
    };
    find(coherent | vk::MemoryPropertyFlags::HOST_CACHED).or_else(|| find(coherent))
}
