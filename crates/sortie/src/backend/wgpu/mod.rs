//! wgpu's devices.

mod commands;
mod pending_writes;
mod queue;
mod retained;
mod wait_point;

pub(crate) use self::{
    commands::{NativeParts, WgpuCommands},
    queue::WgpuQueue,
};
