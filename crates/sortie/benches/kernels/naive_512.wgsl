@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = 0.0;
    for (var i = 0u; i < 512u; i++) { sum += a[id.y * 512u + i] * b[i * 512u + id.x]; }
    c[id.y * 512u + id.x] = sum;
}
