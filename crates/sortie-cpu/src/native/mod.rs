//! Built-in operations as plain Rust. All tensor operations run these on the CPU device instead of WGSL.
//!
//! Slices in, slices out; wrong lengths are a [`Mismatch`], never a panic. Small operations run on the calling thread,
//! large ones on [`Threads`](crate::Threads).

mod function;
mod lanes;
mod matmul;
mod norm;
mod panels;
mod reduce;
mod register_blocks;
mod vector;
mod vectors;

use std::fmt;

pub use self::{
    function::{apply, narrow, widen},
    matmul::{Block, Products, RowsOf, Side, divide, matmul, pack},
    norm::normalize,
    panels::{Matrix, MatrixElement, packed_words},
    reduce::{NOWHERE, Partial, Reducer},
};

/// A slice has the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The required length.
    pub wanted: usize,
    /// The actual length.
    pub found: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} elements, found {}", self.wanted, self.found)
    }
}

impl std::error::Error for Mismatch {}

fn same(wanted: usize, found: usize) -> Result<(), Mismatch> {
    if wanted == found { Ok(()) } else { Err(Mismatch { wanted, found }) }
}
