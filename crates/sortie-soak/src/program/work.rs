//! The kernels of a program, and what they make of data.

pub(super) const AFFINE: &str = include_str!("../../kernels/affine.wgsl");
pub(super) const COMBINE: &str = include_str!("../../kernels/combine.wgsl");
pub(super) const SHIFT: &str = include_str!("../../kernels/shift.wgsl");

pub(super) fn affine(data: &mut [u32]) {
    data.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(1));
}

pub(super) fn combine(x: &[u32], y: &mut [u32]) {
    for (at, y) in y.iter_mut().enumerate() {
        *y ^= x[at % x.len()].wrapping_add(at as u32);
    }
}
