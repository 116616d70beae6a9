@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&y) { return; }
    var a = 1.0;
    for (var i = 0u; i < u32(x[id.x]); i++) { a = fma(a, 0.5, 1.0); }
    y[id.x] = a;
}
