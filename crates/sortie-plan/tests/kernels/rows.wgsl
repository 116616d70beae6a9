// grid [8208, 1, 1], sizes [5], 0 scalars
struct Params { rows: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<vec4<f32>>;

@compute @workgroup_size(64)
fn map(@builtin(global_invocation_id) id: vec3<u32>) {
    let c = id.x % 262656u;
    let d = c * 4u;
    let v0 = in0[(d % 1024u) / 4u];
    let v1 = exp(v0);
    let v4 = vec4<f32>(in2[d / 1024u]);
    let first = id.x / 262656u * 4u;
    for (var r = first; r < min(first + 4u, p.rows); r++) {
        let i = r * 262656u + c;
        let e = i * 4u;
        let v2 = in1[i];
        let v3 = v2 * v1;
        let v5 = v3 - v4;
        out0[i] = v5;
    }
}
