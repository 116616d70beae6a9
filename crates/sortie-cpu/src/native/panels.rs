//! The right side of a product in panels: the order in which its elements are used.
//!
//! A panel is up to three vectors wide and holds all steps of the sum, one after the other. The columns of the last
//! panel are padded with zeros to a whole vector. Halves stay halves.

use std::ops::Range;

use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::{register_blocks::VECTORS, vectors::Build};

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixElement {
    /// Floats.
    F32,
    /// Halves, two per word.
    F16,
}

impl MatrixElement {
    /// Elements of a 32-bit word.
    #[must_use]
    pub fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::F16 => 2,
        }
    }
}

/// A matrix in memory, at any strides.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The memory that holds it.
    pub words: &'a [u32],
    /// Its element type.
    pub element: MatrixElement,
    /// Its first element.
    pub offset: usize,
    /// Elements from one row to the next, and from one column to the next.
    pub strides: [usize; 2],
}

/// Columns of a panel.
pub(super) fn columns() -> usize {
    VECTORS * Build::new().lanes()
}

/// The words of panels for `k` rows of these columns. All panels before the first column are whole.
fn words(k: usize, columns: usize, element: MatrixElement) -> usize {
    k * columns.next_multiple_of(Build::new().lanes()) / element.per_word()
}

/// The number of 32-bit words that a matrix of `k` rows and `n` columns takes in panels on this machine.
#[must_use]
pub fn packed_words(k: usize, n: usize, element: MatrixElement) -> usize {
    words(k, n, element)
}

/// The words of the panel that starts at a column.
pub(super) fn panel(k: usize, n: usize, column: usize, element: MatrixElement) -> Range<usize> {
    let start = words(k, column, element);
    start..start + words(k, columns().min(n - column), element)
}

/// Stores columns of a matrix of `k` rows as panels. The first column starts a panel.
pub(super) fn pack(from: &Matrix<'_>, k: usize, range: Range<usize>, to: &mut [u32]) {
    match from.element {
        MatrixElement::F32 => pack_elements::<u32>(from.words, from, k, range, to),
        MatrixElement::F16 => {
            pack_elements::<u16>(cast_slice(from.words), from, k, range, cast_slice_mut(to));
        }
    }
}

fn pack_elements<T: Pod>(data: &[T], from: &Matrix<'_>, k: usize, range: Range<usize>, mut to: &mut [T]) {
    if k == 0 {
        return;
    }
    let lanes = Build::new().lanes();
    let [row, column] = from.strides;
    for first in range.clone().step_by(columns()) {
        let width = columns().min(range.end - first);
        let padded = width.next_multiple_of(lanes);
        let (panel, rest) = std::mem::take(&mut to).split_at_mut(k * padded);
        to = rest;
        let data = &data[from.offset + first * column..];
        if column == 1 {
            for (step, to) in panel.chunks_exact_mut(padded).enumerate() {
                to[..width].copy_from_slice(&data[step * row..][..width]);
                to[width..].fill(T::zeroed());
            }
            continue;
        }
        if width < padded {
            panel.fill(T::zeroed());
        }
        // A few columns at a time: their memory is read in order.
        for some in (0..width).step_by(8) {
            match width - some {
                8.. => columns_of::<T, 8>(&data[some * column..], [row, column], &mut panel[some..], padded, k),
                left => (some..some + left).for_each(|at| {
                    columns_of::<T, 1>(&data[at * column..], [row, column], &mut panel[at..], padded, k);
                }),
            }
        }
    }
}

/// Stores `N` columns.
fn columns_of<T: Pod, const N: usize>(data: &[T], [row, column]: [usize; 2], to: &mut [T], padded: usize, k: usize) {
    let len = (k - 1) * row + 1;
    let from: [&[T]; N] = std::array::from_fn(|at| &data[at * column..][..len]);
    for (step, to) in to.chunks_mut(padded).take(k).enumerate() {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from[step * row];
        }
    }
}
