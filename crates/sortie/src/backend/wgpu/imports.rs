//! Buffers of the application that are used on a wgpu device.
//!
//! Invariant: a buffer has one block, however often it is imported, because hazards are tracked by block. An entry is
//! removed with its block.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{BindGroupCache, memory::WgpuMemory};
use crate::{
    exit,
    memory::{Block, Home, RawBuffer},
};

#[derive(Debug)]
pub(crate) struct ImportTable {
    blocks: Mutex<FxHashMap<wgpu::Buffer, Weak<Block>>>,
    groups: Arc<BindGroupCache>,
}

impl ImportTable {
    /// `groups` are the bind groups that keep buffers alive.
    pub(crate) fn new(groups: Arc<BindGroupCache>) -> Self {
        Self { blocks: Mutex::default(), groups }
    }

    /// The block of an imported buffer.
    pub(crate) fn import(self: &Arc<Self>, buffer: wgpu::Buffer) -> Arc<Block> {
        let mut blocks = self.blocks.lock();
        if let Some(block) = blocks.get(&buffer).and_then(Weak::upgrade) {
            return block;
        }
        let bytes = buffer.size() & !3;
        let block = Block::imported(self.clone(), Box::new(WgpuMemory::new(buffer.clone())), bytes);
        blocks.insert(buffer, Arc::downgrade(&block));
        block
    }
}

impl Home for ImportTable {
    fn release(&self, raw: RawBuffer) {
        let _inside = exit::enter();
        self.groups.evict(&[raw.id]);
        let Some(memory) = raw.memory::<WgpuMemory>() else { return };
        let mut blocks = self.blocks.lock();
        // It may have been imported again meanwhile.
        if blocks.get(&memory.buffer).is_some_and(|block| block.strong_count() == 0) {
            blocks.remove(&memory.buffer);
        }
    }
}
