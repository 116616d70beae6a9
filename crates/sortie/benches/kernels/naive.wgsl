struct Size { m: u32, k: u32, n: u32 }
@group(0) @binding(0) var<uniform> size: Size;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.n || id.y >= size.m { return; }
    var sum = 0.0;
    for (var i = 0u; i < size.k; i++) { sum += a[id.y * size.k + i] * b[i * size.n + id.x]; }
    c[id.y * size.n + id.x] = sum;
}
