//! Memory of a wgpu device: one `wgpu::Buffer` per block.
//!
//! Invariant: buffers, and with the last of them the device, are freed only by a thread that has entered the driver
//! (see [`exit`]).
//!
//! Buffers are dropped, never destroyed: wgpu's `destroy` blocks behind a waiting `poll`.

use std::sync::Arc;

use super::{BindGroupCache, Gpu};
use crate::{
    error::{Error, Result},
    exit::{self, EnterOnDrop, LeaveOnDrop},
    memory::{Block, BufferId, DeviceMemory, MemorySource, Usage},
};

/// All usages of our buffers. `INDIRECT` and `UNIFORM` cost nothing measurable once a buffer is pooled.
const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::UNIFORM)
    .union(wgpu::BufferUsages::INDIRECT)
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

#[derive(Debug)]
pub(crate) struct WgpuMemory {
    _entering: EnterOnDrop,
    pub(crate) buffer: wgpu::Buffer,
    _leaving: LeaveOnDrop,
}

impl WgpuMemory {
    pub(crate) fn new(buffer: wgpu::Buffer) -> Self {
        Self { _entering: EnterOnDrop(true), buffer, _leaving: LeaveOnDrop(true) }
    }
}

impl DeviceMemory for WgpuMemory {
    fn allows(&self, wanted: Usage) -> bool {
        self.buffer.usage().contains(match wanted {
            Usage::Storage => wgpu::BufferUsages::STORAGE,
            Usage::Uniform => wgpu::BufferUsages::UNIFORM,
            Usage::Indirect => wgpu::BufferUsages::INDIRECT,
            Usage::CopyFrom => wgpu::BufferUsages::COPY_SRC,
            Usage::CopyTo => wgpu::BufferUsages::COPY_DST,
        })
    }
}

/// The buffer of a block of a wgpu device.
///
/// # Errors
/// `Internal` for a block of another backend.
#[inline]
pub(crate) fn buffer(block: &Block) -> Result<&wgpu::Buffer> {
    let memory = block.memory::<WgpuMemory>();
    memory.map(|memory| &memory.buffer).ok_or_else(|| Error::internal("wgpu was given memory of another backend"))
}

/// Creates buffers of a wgpu device.
pub(crate) struct WgpuMemorySource {
    _entering: EnterOnDrop,
    gpu: Gpu,
    groups: Arc<BindGroupCache>,
    _leaving: LeaveOnDrop,
}

impl WgpuMemorySource {
    /// `groups` are the bind groups that keep buffers alive.
    pub(crate) fn new(gpu: Gpu, groups: Arc<BindGroupCache>) -> Self {
        Self { _entering: EnterOnDrop(true), gpu, groups, _leaving: LeaveOnDrop(true) }
    }
}

impl MemorySource for WgpuMemorySource {
    fn create(&self, bytes: u64) -> Result<Box<dyn DeviceMemory>> {
        let scopes = self.gpu.scopes();
        let buffer = self.gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie"),
            size: bytes,
            usage: USAGE,
            mapped_at_creation: false,
        });
        scopes.pop(|| format!("a buffer of {bytes} bytes"), bytes)?;
        Ok(Box::new(WgpuMemory::new(buffer)))
    }

    fn freeing(&self, ids: &[BufferId]) {
        let _inside = exit::enter();
        self.groups.evict(ids);
    }
}
