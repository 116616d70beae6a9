//! Built-in operations as native Rust: what a tensor operation runs on this device instead of WGSL.
//!
//! Slices in, slices out; lengths that do not fit are a [`Mismatch`], never a panic. Small work runs on the calling thread; large work is
//! shared with [`Threads`](crate::Threads).
//!
//! ```
//! use sortie_cpu::{Threads, native};
//! let threads = Threads::new(None)?;
//! let mut sum = [0.0; 3];
//! native::binary(native::Binary::Add, &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0], &mut sum, &threads)?;
//! assert_eq!(sum, [11.0, 22.0, 33.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod elementwise;
mod function;
mod gemm;
mod matmul;
mod timing;
mod vector;

use std::fmt;

pub use self::{
    elementwise::{Binary, Unary, binary, fill, scale, sum, unary},
    function::{Function, Number, apply, narrow, widen},
    matmul::{Matmul, matmul},
    timing::time_libraries,
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
