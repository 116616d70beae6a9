//! Device memory, without knowing whose: blocks, the pool that recycles them, and ranges of elements. Backends make the memory itself and
//! look into it.

mod block;
mod heap;
pub(crate) mod host;
mod pool;
mod raw_buffer;
pub(crate) mod shelf;
mod stretch;

pub(crate) use self::{
    block::{Block, Home, Sequence},
    heap::give_back,
    host::index,
    pool::Pool,
    raw_buffer::{BufferId, DeviceMemory, MemorySource, RawBuffer, Use},
    shelf::Shelf,
    stretch::{Stretch, bytes_of, element_bytes},
};
