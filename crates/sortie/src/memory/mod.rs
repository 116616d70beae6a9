//! Device memory: the user's buffers, the pool they come from, and staging to and from the host.

mod block;
mod buffer;
mod pool;
mod shelf;
mod staging;
mod stretch;

pub use self::buffer::{Buffer, Slice};
pub(crate) use self::{
    block::{Block, Use},
    buffer::bytes_of,
    pool::{BufferId, Pool, Raw},
    staging::{Readback, Returning, Staging},
    stretch::Stretch,
};
