//! A part of a buffer, in elements and in bytes.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// A range of elements in a buffer of `len` elements, as the user gave it. It is checked when it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) len: usize,
    /// Bytes per element.
    pub(crate) size: usize,
}

impl ElementRange {
    pub(crate) fn whole<T>(len: usize) -> Self {
        Self { start: 0, end: len, len, size: size_of::<T>() }
    }

    /// The same bytes as elements of type `U`. Bytes after the last whole element of the buffer are left out. A range
    /// that does not begin or end with an element becomes one that fits no buffer.
    pub(crate) fn in_elements_of<U>(self) -> Self {
        let size = size_of::<U>();
        let bytes = |elements: usize| elements.saturating_mul(self.size);
        let len = bytes(self.len).checked_div(size).unwrap_or_default();
        let whole = |elements: usize| {
            if size > 0 && bytes(elements).is_multiple_of(size) { bytes(elements) / size } else { usize::MAX }
        };
        let end = if self.end == self.len { len } else { whole(self.end) };
        Self { start: whole(self.start), end, len, size }
    }

    /// Bytes of the elements themselves.
    #[inline]
    pub(crate) fn exact(self) -> u64 {
        (self.end.saturating_sub(self.start) as u64).saturating_mul(self.size as u64)
    }

    #[inline]
    pub(crate) fn fits(self) -> bool {
        self.start <= self.end && self.end <= self.len
    }

    /// The byte that it starts at.
    #[inline]
    pub(crate) fn offset(self) -> u64 {
        (self.start as u64).saturating_mul(self.size as u64)
    }

    /// The range in bytes, rounded up to 4 at the buffer's end.
    pub(crate) fn bytes(self) -> Result<Range<u64>> {
        if !self.fits() {
            let Self { start, end, len, size } = self;
            let message = if start == usize::MAX || end == usize::MAX {
                format!("the slice reaches past its end, or does not begin and end with an element of {size} bytes")
            } else {
                format!("the slice {start}..{end} does not fit a buffer of {len} elements")
            };
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let start = self.offset();
        let end = start.saturating_add(self.exact());
        let end = if self.end == self.len { end.checked_next_multiple_of(4).unwrap_or(end) } else { end };
        if start < end && !(start.is_multiple_of(4) && end.is_multiple_of(4)) {
            let message = format!("the slice of bytes {start}..{end} is misaligned: both ends must be multiples of 4");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(start..end)
    }
}

/// Bytes of an element.
pub(crate) fn element_bytes<T>() -> Result<u64> {
    match size_of::<T>() as u64 {
        0 => Err(Error::new(ErrorKind::Unsupported, "device memory cannot hold elements of size 0")),
        size => Ok(size),
    }
}

/// Bytes of `len` elements.
pub(crate) fn bytes_of<T>(len: usize) -> Result<u64> {
    let size = element_bytes::<T>()?;
    (len as u64).checked_mul(size).ok_or_else(|| Error::too_large("bytes in one buffer", u64::MAX, i64::MAX as u64))
}
