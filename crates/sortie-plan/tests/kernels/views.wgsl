// grid [1, 1, 1], sizes [9], 3 scalars
struct Params { items: u32, s0: u32, s1: u32, s2: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out0: array<f32>;

@compute @workgroup_size(64)
fn map(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i >= p.items { return; }
    let e = i;
    let v0 = in0[p.s2 + e / 3u + (e % 3u) * 7u];
    let v1 = f32(bitcast<f32>(p.s0));
    let v2 = f32(bitcast<f32>(p.s1));
    let v3 = select(select(v0, v2, v0 > v2), v1, v0 < v1);
    out0[i] = v3;
}
