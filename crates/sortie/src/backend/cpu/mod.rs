//! The built-in CPU: memory and readbacks of the host's own.

mod host_memory;
mod readback;

pub(crate) use self::{
    host_memory::{HostMemory, HostMemorySource, host_memory},
    readback::CpuReadback,
};
