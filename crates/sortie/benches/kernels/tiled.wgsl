struct Size { m: u32, k: u32, n: u32 }
@group(0) @binding(0) var<uniform> size: Size;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
var<workgroup> left: array<array<f32, 16>, 16>;
var<workgroup> right: array<array<f32, 16>, 16>;
@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) at: vec3<u32>) {
    var sum = 0.0;
    for (var t = 0u; t < size.k; t += 16u) {
        left[at.y][at.x] = a[id.y * size.k + t + at.x];
        right[at.y][at.x] = b[(t + at.y) * size.n + id.x];
        workgroupBarrier();
        for (var i = 0u; i < 16u; i++) { sum += left[at.y][i] * right[i][at.x]; }
        workgroupBarrier();
    }
    c[id.y * size.n + id.x] = sum;
}
