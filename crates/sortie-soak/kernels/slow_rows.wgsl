@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&y) { return; }
    var value = x[id.x];
    for (var i = 0u; i < 512u; i++) { value = value * 1664525u + 1013904223u; }
    y[id.x] = value;
}
