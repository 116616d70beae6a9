//! Products of a vector and a matrix. Every element of the matrix is used once, so packing does not pay.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use std::sync::Mutex;

use crate::{
    Threads,
    simd::{Simd, Vectorize},
};

/// Matrices with at least this many elements are shared between threads: about 20 µs on one thread.
const MIN_SHARED_WORK: usize = 1 << 17;

/// How a row of the matrix enters the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowProduct {
    /// The result is the sum of all rows, each times one element of the vector.
    WeightedSum,
    /// Each element of the result is the dot product of one row with the vector.
    DotProduct,
}

/// `result = vector · matrix`. Rows are as long as the result, or as the vector.
pub(super) fn multiply(product: RowProduct, vector: &[f32], matrix: &[f32], result: &mut [f32], threads: &Threads) {
    let simd = Simd::new();
    let Some(pool) = threads.pool().filter(|_| matrix.len() >= MIN_SHARED_WORK && result.len() > 1) else {
        return simd.run(ResultRange { product, vector, matrix, start: 0, columns: result.len(), result });
    };
    // Whole cache lines.
    let each = result.len().div_ceil(2 * threads.count()).next_multiple_of(16);
    let columns = result.len();
    let parts = result.chunks_mut(each).enumerate().map(|(at, result)| (at * each, result));
    let parts = Mutex::new(parts);
    let next = || parts.lock().ok().and_then(|mut parts| parts.next());
    let work = || {
        while let Some((start, result)) = next() {
            simd.run(ResultRange { product, vector, matrix, start, columns, result });
        }
    };
    Threads::share(pool, threads.count(), work);
}

/// Elements of the result from `start` on.
struct ResultRange<'a> {
    product: RowProduct,
    vector: &'a [f32],
    matrix: &'a [f32],
    start: usize,
    /// Of the whole result.
    columns: usize,
    result: &'a mut [f32],
}

impl Vectorize for ResultRange<'_> {
    #[inline(always)]
    fn work(self) {
        match self.product {
            RowProduct::WeightedSum => self.weighted(),
            RowProduct::DotProduct => self.dotted(),
        }
    }
}

impl ResultRange<'_> {
    #[inline(always)]
    fn weighted(self) {
        let ResultRange { vector, matrix, start, columns, result, .. } = self;
        let len = result.len();
        result.fill(0.0);
        let row = |at: usize| &matrix[at * columns + start..][..len];
        let (fours, rest) = vector.as_chunks::<4>();
        for (at, [a, b, c, d]) in fours.iter().enumerate() {
            let rows = [0, 1, 2, 3].map(|next| row(at * 4 + next));
            let sides = rows[0].iter().zip(rows[1]).zip(rows[2].iter().zip(rows[3]));
            for (result, ((w, x), (y, z))) in result.iter_mut().zip(sides) {
                *result += (a * w + b * x) + (c * y + d * z);
            }
        }
        for (at, weight) in (fours.len() * 4..).zip(rest) {
            result.iter_mut().zip(row(at)).for_each(|(result, x)| *result += weight * x);
        }
    }

    #[inline(always)]
    fn dotted(self) {
        let rows = self.matrix.chunks_exact(self.vector.len()).skip(self.start);
        for (result, row) in self.result.iter_mut().zip(rows) {
            *result = dot(self.vector, row);
        }
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, last_a), (b, last_b)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let mut sums = [0.0_f32; 32];
    for (a, b) in a.iter().zip(b) {
        for at in 0..32 {
            sums[at] += a[at] * b[at];
        }
    }
    let rest: f32 = last_a.iter().zip(last_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
