//! WGSL compute kernels on the CPU: naga's IR, executed in lockstep over all lanes of a workgroup.
#![deny(unsafe_code)]

mod bound;
mod code;
mod eval;
mod geometry;
mod lanes;
mod lower;
mod math;
pub mod native;
mod program;
mod run;
mod shape;
mod stop;
mod threads;
mod unsupported;

pub use self::{
    bound::Bound,
    program::{Finding, Program, Run, Slot, Tuning},
    stop::{Halt, Stop},
    threads::Threads,
    unsupported::Unsupported,
};
