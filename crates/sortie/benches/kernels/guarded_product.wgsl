@group(0) @binding(0) var<storage, read_write> info: array<u32>;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let rows = info[0];
    let inner = info[1];
    let depth = inner / 4u;
    let across = info[2] / 4u;
    let row = id.y * 4u;
    var sums: array<vec4<f32>, 4>;
    for (var k = 0u; k < depth; k++) {
        var left: array<vec4<f32>, 4>;
        for (var i = 0u; i < 4u; i++) {
            var v = vec4<f32>();
            if row + i < rows && k < depth { v = a[(row + i) * depth + k]; }
            left[i] = v;
        }
        var right: array<vec4<f32>, 4>;
        for (var i = 0u; i < 4u; i++) {
            var v = vec4<f32>();
            if k * 4u + i < inner && id.x < across { v = b[(k * 4u + i) * across + id.x]; }
            right[i] = v;
        }
        for (var i = 0u; i < 4u; i++) {
            sums[i] += left[i].x * right[0] + left[i].y * right[1] + left[i].z * right[2] + left[i].w * right[3];
        }
    }
    for (var i = 0u; i < 4u; i++) {
        if row + i < rows && id.x < across { c[(row + i) * across + id.x] = sums[i]; }
    }
}
