//! wgpu: the queue and what it is given, buffers, imported ones included, staging to and from them, readbacks, and compiled kernels.

mod commands;
mod compiler;
mod imports;
mod kernel;
mod layouts;
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
    compiler::{Rules, WgpuCompiler},
    imports::ImportTable,
    kernel::{Pipeline, WgpuKernel},
    layouts::Layout,
    memory::{WgpuMemorySource, buffer},
    queue::WgpuQueue,
    readback::MappedReadback,
    staging::Staging,
    write::HostWriter,
};
#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
pub(crate) use self::{kernel::Hidden, layouts::SignatureKind};
