//! The wgpu backend: the queue and its commands, memory and imported buffers, staging and readbacks, compiled kernels,
//! bind groups, and the interpreter that encodes plans.

mod backend;
mod bind_groups;
mod bindings;
mod cache_file;
mod commands;
mod compiler;
mod encoder;
mod execute;
pub(crate) mod fill;
mod gpu;
mod guests;
mod imports;
mod kernel;
mod layouts;
mod memory;
mod native_replay;
mod pass;
mod pending_writes;
mod pipeline_cache;
mod queue;
mod readback;
mod receipt;
mod replay;
mod retained;
mod shader_module;
mod signal;
mod staging;
#[cfg_attr(any(target_vendor = "apple", target_family = "wasm"), path = "no_timeline.rs")]
mod timeline;
mod timestamps;
mod wait_point;
mod write;

pub(crate) use self::{
    backend::{WgpuBackend, WgpuOpened},
    bind_groups::BoundRange,
    compiler::WgpuCompiler,
    gpu::Gpu,
    kernel::{Hidden, WgpuKernel},
    layouts::GroupLayout,
    memory::buffer,
    native_replay::{NativeCounts, NativeReplay, RecordingDevice, ReplayRecorder, RunMemory},
    timeline::Timeline,
};
use self::{
    bind_groups::BindGroupCache, commands::WgpuCommands, compiler::Rules, gpu::PollOutcome, guests::GuestBatches,
    imports::ImportTable, kernel::Pipeline, memory::WgpuMemorySource, pipeline_cache::PipelineCache, queue::WgpuQueue,
    readback::MappedReadback, receipt::Receipt, signal::Signal, staging::Staging, timeline::DriverLost,
};
