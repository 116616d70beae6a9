//! The order of the operations, their waves, and the memory of scratch slots.
//!
//! Every op gets a label: a phase and a wave within it. Phases alternate between compute (inside a pass) and transfer
//! (on the encoder), so fewer phases mean fewer passes. An op comes after everything it conflicts with: one wave later
//! in the same phase, or in the next phase of its own kind. Scratch memory is reused only across waves, so reuse never
//! adds a conflict.

mod hazard;
mod label;
mod memory;
mod schedule;

pub(crate) use self::{
    memory::{Memory, Zeroing, place},
    schedule::{Schedule, Wave, order},
};
