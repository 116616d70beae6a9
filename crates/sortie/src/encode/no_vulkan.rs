//! What stands for `vulkan.rs` where wgpu has no Vulkan: no replay is native.

use std::sync::Arc;

use super::{Frozen, direct::Direct};
use crate::{device::Shared, error::Result, memory::Block};

/// There is none.
#[derive(Debug)]
pub(crate) enum Secondary {}

impl Secondary {
    pub(super) fn suits(_: &Shared, _: &Frozen) -> bool {
        false
    }

    #[expect(clippy::unnecessary_wraps, reason = "as on Vulkan")]
    pub(super) fn record(_: &Arc<Shared>, _: &Frozen, _: Option<&Self>) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(super) fn direct(&self) -> Option<&Direct> {
        match *self {}
    }

    pub(super) fn counts(&self) -> [u64; 2] {
        match *self {}
    }

    pub(super) fn execute(&self, _: usize, _: &mut wgpu::CommandEncoder) -> Result<()> {
        match *self {}
    }
}

pub(super) fn is_gone(_: &Block) -> bool {
    false
}
