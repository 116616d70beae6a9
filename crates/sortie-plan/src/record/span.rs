//! A range of consecutive entries in a list. The field that holds the span names the list.
//!
//! Two `u32`s instead of a `Range<usize>`: operations are hashed and compared in bulk, so their size matters.

use std::ops::Range;

/// Entries `start .. start + len` of some list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Index of the first entry.
    pub start: u32,
    /// Number of entries.
    pub len: u32,
}

impl Span {
    /// No entries.
    pub const EMPTY: Self = Self { start: 0, len: 0 };

    /// The entries of `range`.
    ///
    /// # Panics
    ///
    /// If the range exceeds `u32::MAX`: no list of a recording or plan is that long.
    #[must_use]
    #[inline]
    pub fn new(range: Range<usize>) -> Self {
        let start = u32::try_from(range.start).expect("lists are indexed by u32");
        let end = u32::try_from(range.end).expect("lists are indexed by u32");
        Self { start, len: end - start }
    }

    /// The same entries as indices, ready for slicing.
    #[must_use]
    #[inline]
    pub const fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn a_span_slices_what_it_was_made_from() {
        for range in [0..0, 3..7, 5..5] {
            assert_eq!(Span::new(range.clone()).range(), range);
        }
    }
}
