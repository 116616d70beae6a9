//! A safe face for the crate `gemm`.
//!
//! The only unsafe code of this crate. What it buys: on two hardware threads of an AVX2 core a product of 512³ takes
//! 0.85 of the time that `matrixmultiply` needs (`cargo bench -p sortie --bench tensor`), and one of 8×384×1536
//! on a core with AVX-512 0.4 of it.

#![expect(unsafe_code, reason = "gemm takes pointers and strides; views of matrices have nothing else")]

use ndarray::{ArrayView2, ArrayViewMut2};

/// `product = left · right`, on this many threads of the pool that it is called in.
pub(super) fn gemm(
    left: &ArrayView2<'_, f32>,
    right: &ArrayView2<'_, f32>,
    product: &mut ArrayViewMut2<'_, f32>,
    threads: usize,
) {
    let (m, k) = left.dim();
    let n = right.ncols();
    assert_eq!((right.nrows(), product.dim()), (k, (m, n)), "shapes that fit");
    let parallelism = if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let (left_strides, right_strides) = (left.strides(), right.strides());
    let [row, column] = [product.strides()[0], product.strides()[1]];
    // SAFETY: pointers, lengths and strides are those of three views that live until it returns; the assertion says
    // that they fit together, and the product, borrowed mutably, overlaps neither factor. Nothing is read from it:
    // `read_dst` is false.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            product.as_mut_ptr(),
            column,
            row,
            false,
            left.as_ptr(),
            left_strides[1],
            left_strides[0],
            right.as_ptr(),
            right_strides[1],
            right_strides[0],
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
