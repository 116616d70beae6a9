//! Device memory: the user's buffers, the pool they come from, and staging to and from the host.

mod block;
mod buffer;
mod heap;
pub(crate) mod host;
mod pool;
mod raw;
mod returns;
mod shelf;
mod staging;
mod stretch;
mod words;

pub use self::buffer::{Buffer, Slice};
pub(crate) use self::{
    block::{Block, Sequence, Use},
    buffer::bytes_of,
    heap::give_back,
    pool::{Maker, Pool},
    raw::{BufferId, Raw, Store},
    returns::Returns,
    staging::{Readback, Returning, Staged, Staging},
    stretch::Stretch,
    words::{Words, index},
};
