//! How batches end: completions, the tickets and readings that wait for them, and the data that those get.

mod completion;
mod readback;
mod reading;
pub(crate) mod sync;
mod ticket;

pub(crate) use self::{
    completion::{Completion, Wakers, canceled},
    readback::{PendingReadback, ReadReady},
    reading::BatchReadback,
};
pub use self::{
    reading::{Readable, Reading},
    ticket::Ticket,
};
