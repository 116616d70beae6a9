@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    var n = x[id.x];
    var steps = 0u;
    while n > 1u {
        if n % 2u == 0u { n = n / 2u; } else { n = 3u * n + 1u; }
        steps++;
    }
    y[id.x] = steps;
}
