//! Small kernels, straight through the crate's own API.
mod flow;
mod harness;
mod memory;
mod packed;
mod racy;
mod unrolled;
mod waits;
