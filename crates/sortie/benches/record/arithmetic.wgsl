@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var value = x[id.x];
    var float = f32(value % 1000u);
    for (var step = 0u; step < 512u; step++) {
        value = value * 1664525u + 1013904223u;
        float = float * 0.5 + f32(value >> 22u);
    }
    y[id.x] = value + u32(float);
}
