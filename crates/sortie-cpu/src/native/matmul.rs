//! Products of matrices, by `gemm` or `matrixmultiply` (through `ndarray`, which has a safe interface to it).
//!
//! `gemm` is the default for every shape: with two cores of an EPYC with AVX-512 it took 0.15 to 0.7 of
//! `matrixmultiply`'s time where one side has fewer than 32 rows or columns, and 0.9 to 1.0 for larger ones. Which is
//! faster for large products depends on the machine, by up to 1.5 times either way. A product never measures that:
//! [`time_matmul_algorithms`](super::time_matmul_algorithms) does, and
//! [`Threads::set_matmul_algorithm`] sets the algorithm for large products. Until then, all products of one shape use the
//! same algorithm.

use std::sync::Mutex;

use ndarray::{ArrayView2, ArrayViewMut2, Axis, linalg::general_mat_mul};

use super::{
    Mismatch,
    gemm::gemm,
    same,
    vector::{self, RowProduct},
};
use crate::{MatmulAlgorithm, Threads};

/// Products with at least this many multiplications are shared between threads: about 20 µs on one thread.
const MIN_SHARED_WORK: usize = 1 << 20;

/// Products with fewer rows or columns always use `gemm`: `matrixmultiply` packs both operands, which takes longer than
/// such a product.
const MIN_ALGORITHM_SIDE: usize = 32;

/// The product `c = a · b`, with `a` of `m × k`, `b` of `k × n`, `c` of `m × n`, all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matmul {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// `a` is given as `k × m`.
    pub transpose_a: bool,
    /// `b` is given as `n × k`.
    pub transpose_b: bool,
}

impl Matmul {
    /// Neither operand transposed.
    #[must_use]
    pub fn new(m: usize, k: usize, n: usize) -> Self {
        Self { m, k, n, transpose_a: false, transpose_b: false }
    }
}

/// Multiplies matrices.
///
/// ```
/// use sortie_cpu::{Threads, native::{Matmul, matmul}};
/// let mut c = [0.0; 4];
/// matmul(Matmul::new(2, 2, 2), &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], &mut c, &Threads::new(None)?)?;
/// assert_eq!(c, [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A slice does not have the length that the shape requires.
pub fn matmul(shape: Matmul, a: &[f32], b: &[f32], c: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
    let Matmul { m, k, n, .. } = shape;
    let size = usize::saturating_mul;
    same(size(m, k), a.len())?;
    same(size(k, n), b.len())?;
    same(size(m, n), c.len())?;
    if c.is_empty() {
        return Ok(());
    }
    if k == 0 {
        c.fill(0.0);
        return Ok(());
    }
    // A transposed vector has the same memory layout.
    match (m, n) {
        (1, _) => {
            let product = if shape.transpose_b { RowProduct::DotProduct } else { RowProduct::WeightedSum };
            vector::multiply(product, a, b, c, threads);
            return Ok(());
        }
        (_, 1) => {
            let product = if shape.transpose_a { RowProduct::WeightedSum } else { RowProduct::DotProduct };
            vector::multiply(product, b, a, c, threads);
            return Ok(());
        }
        _ => {}
    }
    let left = if shape.transpose_a { view(k, m, a)?.reversed_axes() } else { view(m, k, a)? };
    let right = if shape.transpose_b { view(n, k, b)?.reversed_axes() } else { view(k, n, b)? };
    let found = c.len();
    let mut whole = ArrayViewMut2::from_shape((m, n), c).map_err(|_| Mismatch { wanted: m * n, found })?;
    let shared = size(size(m, k), n) >= MIN_SHARED_WORK;
    let library =
        if shared && m.min(n) >= MIN_ALGORITHM_SIDE { threads.matmul_algorithm() } else { MatmulAlgorithm::Gemm };
    multiply(library, &left, &right, &mut whole, threads, shared);
    Ok(())
}

/// Computes one product with an algorithm, on all threads if `shared`, else on the calling thread.
pub(super) fn multiply(
    library: MatmulAlgorithm,
    left: &ArrayView2<'_, f32>,
    right: &ArrayView2<'_, f32>,
    product: &mut ArrayViewMut2<'_, f32>,
    threads: &Threads,
    shared: bool,
) {
    threads.count_product();
    let pool = threads.pool().filter(|_| shared).map(|pool| (pool, threads.count()));
    match (library, pool) {
        (MatmulAlgorithm::Strips, Some((pool, count))) if right.ncols() > 1 => {
            strips(left, right, product.view_mut(), pool, count);
        }
        (MatmulAlgorithm::Strips | MatmulAlgorithm::Whole, _) => general_mat_mul(1.0, left, right, 0.0, product),
        (MatmulAlgorithm::Gemm, Some((pool, count))) => pool.install(|| gemm(left, right, product, count)),
        (MatmulAlgorithm::Gemm, None) => gemm(left, right, product, 1),
    }
}

/// Strips of columns: the right operand is large, and each thread packs only its own part of it.
fn strips(
    left: &ArrayView2<'_, f32>,
    right: &ArrayView2<'_, f32>,
    product: ArrayViewMut2<'_, f32>,
    pool: &rayon::ThreadPool,
    count: usize,
) {
    let columns = right.ncols().div_ceil(count).next_multiple_of(8);
    let mut strips = Vec::with_capacity(count);
    let (mut rest_of_right, mut rest) = (right.view(), product);
    while rest.ncols() > 0 {
        let take = columns.min(rest.ncols());
        let (strip, others) = rest.split_at(Axis(1), take);
        let (mine, beside) = rest_of_right.split_at(Axis(1), take);
        strips.push((mine, strip));
        (rest_of_right, rest) = (beside, others);
    }
    // Each thread takes the next strip when it is ready, so a thread that wakes late delays no other.
    let strips = Mutex::new(strips);
    let next = || strips.lock().ok().and_then(|mut strips| strips.pop());
    let work = || {
        while let Some((right, mut strip)) = next() {
            general_mat_mul(1.0, left, &right, 0.0, &mut strip);
        }
    };
    Threads::share(pool, count, work);
}

fn view(rows: usize, columns: usize, data: &[f32]) -> Result<ArrayView2<'_, f32>, Mismatch> {
    ArrayView2::from_shape((rows, columns), data).map_err(|_| Mismatch { wanted: rows * columns, found: data.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_libraries_agree() {
        // Small integers: sums are exact, so every order of additions gives the same bits.
        let data = |len: usize, step: usize| (0..len).map(|at| (at * step % 7) as f32 - 3.0).collect::<Vec<_>>();
        for count in [1, 3] {
            let threads = Threads::new(Some(count)).unwrap_or_else(|error| panic!("{error}"));
            for (m, k, n) in [(1, 1, 1), (5, 3, 2), (33, 70, 41), (64, 1, 129), (1, 200, 9), (100, 64, 1)] {
                let (a, b) = (data(m * k, 3), data(k * n, 5));
                let fit = |rows, columns, data| ArrayView2::from_shape((rows, columns), data).expect("as long as said");
                for (left, right) in
                    [(fit(m, k, &a), fit(k, n, &b)), (fit(k, m, &a).reversed_axes(), fit(n, k, &b).reversed_axes())]
                {
                    let results = MatmulAlgorithm::ALL.map(|library| {
                        // What was there before does not count, not even NaN.
                        let mut product = vec![f32::NAN; m * n];
                        let mut view = ArrayViewMut2::from_shape((m, n), &mut product).expect("as long as said");
                        multiply(library, &left, &right, &mut view, &threads, true);
                        product
                    });
                    let sum = |at: usize| (0..k).map(|i| left[(at / n, i)] * right[(i, at % n)]).sum::<f32>();
                    let expected: Vec<f32> = (0..m * n).map(sum).collect();
                    assert!(results.iter().all(|result| *result == expected), "{m} {k} {n} on {count}");
                }
            }
        }
    }
}
