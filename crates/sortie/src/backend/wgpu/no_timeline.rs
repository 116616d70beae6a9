//! Replaces `timeline.rs` on platforms where wgpu has no Vulkan.

use std::time::Duration;

/// Uninhabited: there is no timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DriverLost {}

/// Uninhabited: there is no timeline.
#[derive(Debug)]
pub(crate) enum Timeline {}

impl Timeline {
    pub(crate) fn new(_: &wgpu::Device) -> Option<Self> {
        None
    }

    pub(crate) fn attach(&self, _: &wgpu::Queue) -> u64 {
        match *self {}
    }

    pub(crate) fn detach(&self, _: &wgpu::Queue) -> bool {
        match *self {}
    }

    pub(crate) fn wait(&self, _: u64, _: Duration) -> Result<bool, DriverLost> {
        match *self {}
    }
}
