//! Sums of products, in blocks that stay in registers.
//!
//! Each element of a product is one chain of multiply-adds, in the order of the summed axis, whatever else is computed
//! with it. So its bits depend neither on the number of rows nor on how the work is divided.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]
#![expect(clippy::needless_range_loop, reason = "closures of iterators do not always land there")]

use pulp::bytemuck::cast_slice;

use super::vectors::Vectors;

/// Most vectors of a panel.
pub(super) const VECTORS: usize = 3;

/// Rows of the left side: each contiguous, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    pub(super) fn row(self, at: usize, len: usize) -> &'a [f32] {
        // Rows without elements may be past the end.
        if len == 0 { &[] } else { &self.data[at * self.stride..][..len] }
    }
}

/// A block of sums to store: rows `stride` apart, of `width` elements each.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// The element type of a panel.
pub(super) trait Weight<V: Vectors> {
    type Vector: pulp::bytemuck::Pod;

    fn widen(vectors: V, from: Self::Vector) -> V::Floats;
}

/// Floats.
pub(super) struct F32;
/// Halves.
pub(super) struct F16;

impl<V: Vectors> Weight<V> for F32 {
    type Vector = V::Floats;

    #[inline(always)]
    fn widen(_: V, from: V::Floats) -> V::Floats {
        from
    }
}

impl<V: Vectors> Weight<V> for F16 {
    type Vector = V::Halves;

    #[inline(always)]
    fn widen(vectors: V, from: V::Halves) -> V::Floats {
        vectors.widen_f16(from)
    }
}

/// Multiplies rows with a panel of `count` vectors a step.
#[inline(always)]
pub(super) fn multiply<V: Vectors, W: Weight<V>>(
    vectors: V,
    rows: Rows<'_>,
    count: usize,
    panel: &[u32],
    vectors_of_panel: usize,
    sums: &mut Sums<'_>,
) {
    let panel: &[W::Vector] = cast_slice(panel);
    match vectors_of_panel {
        1 => blocks::<V, W, 1>(vectors, rows, count, panel.as_chunks().0, sums),
        2 => blocks::<V, W, 2>(vectors, rows, count, panel.as_chunks().0, sums),
        _ => blocks::<V, W, 3>(vectors, rows, count, panel.as_chunks().0, sums),
    }
}

/// Blocks of as many rows as registers hold.
#[inline(always)]
fn blocks<V: Vectors, W: Weight<V>, const C: usize>(
    vectors: V,
    rows: Rows<'_>,
    count: usize,
    panel: &[[W::Vector; C]],
    sums: &mut Sums<'_>,
) {
    let mut row = 0;
    while row < count {
        let take = (count - row).min(V::ROWS);
        match take {
            1 => block::<V, W, 1, C>(vectors, rows, row, panel, sums),
            2 => block::<V, W, 2, C>(vectors, rows, row, panel, sums),
            3 => block::<V, W, 3, C>(vectors, rows, row, panel, sums),
            4 => block::<V, W, 4, C>(vectors, rows, row, panel, sums),
            // Fewer registers: never reached, and not compiled.
            _ if V::ROWS == 4 => {}
            5 => block::<V, W, 5, C>(vectors, rows, row, panel, sums),
            6 => block::<V, W, 6, C>(vectors, rows, row, panel, sums),
            7 => block::<V, W, 7, C>(vectors, rows, row, panel, sums),
            _ => block::<V, W, 8, C>(vectors, rows, row, panel, sums),
        }
        row += take;
    }
}

#[inline(always)]
fn block<V: Vectors, W: Weight<V>, const R: usize, const C: usize>(
    vectors: V,
    rows: Rows<'_>,
    first: usize,
    panel: &[[W::Vector; C]],
    to: &mut Sums<'_>,
) {
    let mut left: [&[f32]; R] = [&[]; R];
    for row in 0..R {
        left[row] = rows.row(first + row, panel.len());
    }
    let mut sums = [[vectors.splat(0.0); C]; R];
    // All rows are as long as the panel, so no index is checked.
    for at in 0..panel.len() {
        let mut right = [vectors.splat(0.0); C];
        for column in 0..C {
            right[column] = W::widen(vectors, panel[at][column]);
        }
        for row in 0..R {
            let x = vectors.splat(left[row][at]);
            for column in 0..C {
                sums[row][column] = vectors.fused(x, right[column], sums[row][column]);
            }
        }
    }
    for row in 0..R {
        let out = &mut to.data[(first + row) * to.stride..][..to.width];
        let floats: &[f32] = cast_slice(&sums[row]);
        out.copy_from_slice(&floats[..to.width]);
    }
}
