//! wgpu: the queue and what it is given, buffers, imported ones included, staging to and from them, and readbacks.

mod commands;
mod imports;
mod memory;
mod pending_writes;
mod queue;
mod readback;
mod retained;
mod staging;
mod wait_point;
mod write;

pub(crate) use self::{
    commands::{NativeParts, WgpuCommands},
    imports::ImportTable,
    memory::{WgpuMemorySource, buffer},
    queue::WgpuQueue,
    readback::MappedReadback,
    staging::Staging,
    write::HostWriter,
};
