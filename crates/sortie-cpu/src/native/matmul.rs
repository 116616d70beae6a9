//! Products of matrices, by `matrixmultiply` through `ndarray`, which gives it a safe face.
//!
//! Of the two crates there are for it, `matrixmultiply` was the faster one on the machine this was written on (147 against 93 GFLOP/s on one thread at
//! 512³). `cargo bench -p sortie --bench cpu` has the comparison as `native-matmul`.

use ndarray::{ArrayView2, ArrayViewMut2, Axis, linalg::general_mat_mul};

use super::{Mismatch, same};
use crate::Threads;

/// Multiplications from which on rows are shared between threads: about 20 µs on one.
const WORTH_SHARING: usize = 1 << 20;

/// What to multiply: `c = a · b`, with `a` of `m × k`, `b` of `k × n`, `c` of `m × n`, each row after row.
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
/// When a length is not what the shape says.
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
    let left = if shape.transpose_a { view(k, m, a)?.reversed_axes() } else { view(m, k, a)? };
    let right = if shape.transpose_b { view(n, k, b)?.reversed_axes() } else { view(k, n, b)? };
    let found = c.len();
    let mut whole = ArrayViewMut2::from_shape((m, n), c).map_err(|_| Mismatch { wanted: m * n, found })?;
    let shared = threads.pool().filter(|_| size(size(m, k), n) >= WORTH_SHARING && m > 1);
    let Some(pool) = shared else {
        multiply(&left, &right, &mut whole);
        return Ok(());
    };
    // Whole strips of rows, so that each thread packs only its own part of the left side.
    let rows = m.div_ceil(threads.count()).next_multiple_of(8).min(m);
    pool.in_place_scope(|scope| {
        let (mut left, mut rest) = (left, whole);
        loop {
            let take = rows.min(rest.nrows());
            let (mut strip, below) = rest.split_at(Axis(0), take);
            let (mine, others) = left.split_at(Axis(0), take);
            if below.nrows() == 0 {
                multiply(&mine, &right, &mut strip);
                return;
            }
            scope.spawn(move |_| multiply(&mine, &right, &mut strip));
            (left, rest) = (others, below);
        }
    });
    Ok(())
}

fn view(rows: usize, columns: usize, data: &[f32]) -> Result<ArrayView2<'_, f32>, Mismatch> {
    ArrayView2::from_shape((rows, columns), data).map_err(|_| Mismatch { wanted: rows * columns, found: data.len() })
}

fn multiply(a: &ArrayView2<'_, f32>, b: &ArrayView2<'_, f32>, c: &mut ArrayViewMut2<'_, f32>) {
    general_mat_mul(1.0, a, b, 0.0, c);
}
