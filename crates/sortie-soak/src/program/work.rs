//! The kernels of a program, and what they make of data.

pub(super) const AFFINE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] = x[id.x] * 3u + 1u; }
    }
";
pub(super) const COMBINE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = y[id.x] ^ (x[id.x % arrayLength(&x)] + id.x); }
    }
";
pub(super) const SHIFT: &str = "
    var<immediate> by: u32;
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] += by; }
    }
";

pub(super) fn affine(data: &mut [u32]) {
    data.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(1));
}

pub(super) fn combine(x: &[u32], y: &mut [u32]) {
    for (at, y) in y.iter_mut().enumerate() {
        *y ^= x[at % x.len()].wrapping_add(at as u32);
    }
}
