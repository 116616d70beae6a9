//! Which operation runs when, side by side with what, and which scratch slots share memory.

mod hazard;
mod label;
mod memory;
mod schedule;

pub(crate) use self::{
    memory::{Memory, Zeroing, place},
    schedule::{Schedule, Wave, order},
};
