//! wgpu: buffers, imported ones included, staging to and from them, and readbacks.

mod imports;
mod memory;
mod readback;
mod staging;
mod write;

pub(crate) use self::{
    imports::ImportTable,
    memory::{WgpuMemorySource, buffer},
    readback::MappedReadback,
    staging::Staging,
    write::HostWriter,
};
