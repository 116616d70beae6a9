//! Dot products: the single column of a product.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
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
