//! The order of the operations, their waves, and the memory of scratch slots.

mod hazard;
mod label;
mod memory;
mod schedule;

pub(crate) use self::{
    memory::{Memory, Zeroing, place},
    schedule::{Schedule, Wave, order},
};
