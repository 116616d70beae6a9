//! What wgpu's queue is given: submissions, and writes outside of batches.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use crate::{device::Timeline, error::Result};

/// One submission.
#[derive(Debug)]
pub(crate) enum WgpuCommands {
    Encoded(wgpu::CommandBuffer),
    /// What goes before a native replay, the replay itself, what goes after.
    Native(SmallVec<[wgpu::CommandBuffer; 3]>),
    /// A part of a native replay that needs nothing of wgpu's.
    Direct(Arc<dyn NativeParts>, usize),
}

/// The submissions of a replay that the device has a recording of.
pub(crate) trait NativeParts: fmt::Debug + Send + Sync {
    /// Has the driver run a part, past wgpu, and returns the value of the timeline that says when it is done. The caller has the turn of the submit queue, and knows that nothing else uses the
    /// device's.
    fn launch(&self, part: usize, timeline: &Timeline) -> Result<u64>;

    /// The same part for wgpu.
    fn commands(&self, device: &wgpu::Device, part: usize) -> Result<wgpu::CommandBuffer>;
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
