//! Built-in operations as native Rust: what a tensor operation runs on this device instead of WGSL.
//!
//! Slices in, slices out; lengths that do not fit are a [`Mismatch`], never a panic. Small work runs on the calling thread; large work is
//! shared with [`Threads`](crate::Threads).

mod function;
mod gemm;
mod matmul;
mod timing;
mod vector;

use std::fmt;

pub use self::{
    function::{apply, narrow, widen},
    matmul::{Matmul, matmul},
    timing::time_matmul_algorithms,
};

/// Lengths that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What the first operand, or the shape, asks for.
    pub wanted: usize,
    /// What there is.
    pub found: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements wanted, {} found", self.wanted, self.found)
    }
}

impl std::error::Error for Mismatch {}

fn same(wanted: usize, found: usize) -> Result<(), Mismatch> {
    if wanted == found { Ok(()) } else { Err(Mismatch { wanted, found }) }
}
