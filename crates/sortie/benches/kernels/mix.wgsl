@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn mix_in(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&x) { y[id.x] = 0.5 * x[id.x] + 1.0; }
}
