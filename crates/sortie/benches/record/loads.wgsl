@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = 0u;
    for (var step = 0u; step < 256u; step++) { sum += x[(id.x * 17u + step * 61u) % arrayLength(&x)]; }
    y[id.x] = sum;
}
