@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    var value = x[id.x];
    for (var i = 0u; i < 512u; i++) { value = value * 1664525u + 1013904223u; }
    x[id.x] = value;
}
