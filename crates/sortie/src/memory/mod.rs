//! Device memory, without knowing whose: blocks, the pool that recycles them, and ranges of elements. Backends make the memory itself and
//! look into it.

mod block;
mod element_range;
pub(crate) mod free_list;
mod heap;
pub(crate) mod host;
mod pool;
mod raw_buffer;
mod spares;

pub(crate) use self::{
    block::{Block, Home, Sequence},
    element_range::{ElementRange, bytes_of, element_bytes},
    free_list::{FreeList, class as pooled_bytes},
    heap::give_back,
    host::index,
    pool::{Pool, Reclaim},
    raw_buffer::{BufferId, DeviceMemory, MemorySource, RawBuffer, Usage},
    spares::{MAX_SPARE_BYTES, MAX_SPARE_OPS, Spares},
};
