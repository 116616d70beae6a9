//! The built-in CPU: its queue, memory and readbacks of the host's own, what kernels are compiled to, and the interpreter that runs plans.

mod backend;
mod compiler;
mod dispatch;
mod fill;
mod host_memory;
mod kernel;
mod locked_memory;
mod native;
mod panels;
mod queue;
mod readback;
mod runner;
mod threads;
mod timer;

pub(crate) use self::{backend::CpuBackend, threads::CpuThreads};
use self::{
    compiler::{CpuCompiler, generate},
    host_memory::{HostMemory, HostMemorySource, host_memory},
    kernel::{CpuKernel, CpuProgram},
    queue::CpuQueue,
    readback::CpuReadback,
    runner::CpuSubmission,
};
