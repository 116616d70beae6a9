//! The commands for wgpu's queue: submissions, and writes outside batches.

use std::sync::Arc;

use smallvec::SmallVec;

use super::native_replay::{NativeReplay, RunMemory};

/// One submission.
pub(crate) enum WgpuCommands {
    Encoded(wgpu::CommandBuffer),
    /// What comes before the first run of a batch that was recorded. It does not count as a submission.
    Preparation(wgpu::CommandBuffer),
    /// The commands before a native replay, the replay itself, and the commands after it. They use the run's memory.
    Native(SmallVec<[wgpu::CommandBuffer; 3]>, Option<Arc<dyn RunMemory>>),
    /// One submission of a native replay that does not need wgpu, and the memory of the run.
    Direct(Arc<dyn NativeReplay>, usize, Option<Arc<dyn RunMemory>>),
}

/// One write outside batches.
pub(crate) enum WgpuWrite {
    /// Takes effect when the view is dropped, with the next submission.
    View(wgpu::QueueWriteBufferView),
    /// Commands that copy this many staged bytes.
    Copy(wgpu::CommandBuffer, u64),
    /// Zeroes recycled memory.
    Clear(wgpu::CommandBuffer),
}
