//! The built-in CPU: its queue, and memory and readbacks of the host's own.

mod host_memory;
mod queue;
mod readback;

pub(crate) use self::{
    host_memory::{HostMemory, HostMemorySource, host_memory},
    queue::CpuQueue,
    readback::CpuReadback,
};
