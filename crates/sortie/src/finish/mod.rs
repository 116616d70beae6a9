//! How batches end: completions, and the tickets and readings that wait for them.

mod completion;
mod reading;
pub(crate) mod sync;
mod ticket;

pub(crate) use self::{
    completion::{Completion, Wakers, canceled},
    reading::Landing,
};
pub use self::{
    reading::{Readable, Reading},
    ticket::Ticket,
};
