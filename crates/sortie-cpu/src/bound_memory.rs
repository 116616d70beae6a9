//! Memory bound to a program.

use std::sync::atomic::AtomicU32;

/// Memory bound to one [`ProgramBinding`](crate::ProgramBinding), as 32-bit words.
#[derive(Debug)]
pub enum BoundMemory<'a> {
    /// Only read.
    Read(&'a [u32]),
    /// Read and written, and bound only once in this dispatch.
    Write(&'a mut [u32]),
    /// Read and written, and possibly bound more than once.
    Shared(&'a [AtomicU32]),
}
