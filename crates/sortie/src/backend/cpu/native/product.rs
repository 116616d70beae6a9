//! Matrix products, by the fastest crates.

use sortie_cpu::{
    BoundMemory, Halted, Stop, Threads,
    native::{Matmul, matmul},
};
use sortie_plan::fuse::Product;

/// Multiplies. `bound`: the two factors, then the product.
pub(super) fn multiply(
    of: &Product,
    bound: &mut [BoundMemory<'_>],
    threads: &Threads,
    stop: Stop<'_>,
) -> Result<(), Halted> {
    let [BoundMemory::Read(left), BoundMemory::Read(right), BoundMemory::Write(product)] = bound else {
        unreachable!("two sides are read, the product is written")
    };
    let Product { m, k, n, batch, .. } = *of;
    let [m, k, n, batch] = [m, k, n, batch].map(|length| length as usize);
    let shape = Matmul { m, k, n, transpose_a: of.transposed[0], transpose_b: of.transposed[1] };
    let (left, right): (&[f32], &[f32]) = (bytemuck::cast_slice(left), bytemuck::cast_slice(right));
    let product: &mut [f32] = bytemuck::cast_slice_mut(product);
    let part = |shared: bool, size: usize, number: usize| {
        if shared { 0..size } else { number * size..(number + 1) * size }
    };
    for number in 0..batch {
        stop.check()?;
        let left = &left[part(of.shared[0], m * k, number)];
        let right = &right[part(of.shared[1], k * n, number)];
        let product = &mut product[number * m * n..(number + 1) * m * n];
        let outcome = matmul(shape, left, right, product, threads);
        debug_assert!(outcome.is_ok(), "lengths follow from the shapes");
    }
    Ok(())
}
