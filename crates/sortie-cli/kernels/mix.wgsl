@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn mix_row(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) {
        var h = 2166136261u;
        for (var k = 0u; k < 4u; k++) { h = (h ^ x[id.x][k]) * 16777619u; h ^= h >> 15u; }
        y[id.x] = h;
    }
}
