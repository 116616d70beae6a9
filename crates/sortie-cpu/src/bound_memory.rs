//! Memory given to a run.

use std::sync::atomic::AtomicU32;

/// What is bound to one slot of a program. Memory is words of 32 bits.
#[derive(Debug)]
pub enum BoundMemory<'a> {
    /// Only read.
    Read(&'a [u32]),
    /// Read and written, and bound nowhere else in this run.
    Write(&'a mut [u32]),
    /// Read and written, and perhaps bound to another slot too.
    Shared(&'a [AtomicU32]),
}
