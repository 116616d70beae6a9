//! The built-in CPU: its queue, memory and readbacks of the host's own, and what kernels are compiled to.

mod compiler;
mod host_memory;
mod kernel;
mod native;
mod queue;
mod readback;

pub(crate) use self::{
    compiler::{CpuCompiler, generate},
    host_memory::{HostMemory, HostMemorySource, host_memory},
    kernel::{CpuKernel, CpuProgram},
    queue::CpuQueue,
    readback::CpuReadback,
};
