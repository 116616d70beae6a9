//! What wgpu's queue is given: submissions, and writes outside of batches.

use std::sync::Arc;

use smallvec::SmallVec;

use super::native_replay::NativeReplay;

/// One submission.
#[derive(Debug)]
pub(crate) enum WgpuCommands {
    Encoded(wgpu::CommandBuffer),
    /// What goes before a native replay, the replay itself, what goes after.
    Native(SmallVec<[wgpu::CommandBuffer; 3]>),
    /// A part of a native replay that needs nothing of wgpu's.
    Direct(Arc<dyn NativeReplay>, usize),
}

/// One write outside of batches.
#[derive(Debug)]
pub(crate) enum WgpuWrite {
    /// Takes effect when the view is dropped, with the next submission.
    View(wgpu::QueueWriteBufferView),
    /// Commands that copy so many staged bytes.
    Copy(wgpu::CommandBuffer, u64),
    /// The zeroing of recycled memory.
    Clear(wgpu::CommandBuffer),
}
