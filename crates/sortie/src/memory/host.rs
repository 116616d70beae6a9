//! Host memory whose size the user chooses: running out is an error and must not end the process.

use crate::error::{Error, Result};

/// A copy on the host.
pub(crate) fn copy<T: bytemuck::Pod>(data: &[T]) -> Result<Vec<T>> {
    let mut copied = with_capacity(data.len())?;
    copied.extend_from_slice(data);
    Ok(copied)
}

/// An empty list with room for `len` elements.
pub(crate) fn with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    Error::reserve(&mut list, len)?;
    Ok(list)
}

/// Converts an offset into memory that exists, so it fits a `usize`.
#[inline]
pub(crate) fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or_else(|_| unreachable!("it lies in memory"))
}
