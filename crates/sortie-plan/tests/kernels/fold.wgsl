// grid [4, 1, 1], sizes [4, 1000, 4286578688, 2139095040], 0 scalars
struct Params { outputs: u32, each: u32, low: u32, high: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;

var<workgroup> part: array<f32, 64>;
@compute @workgroup_size(64)
fn fold(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let o = group.x;
    {
    let s = o;
    let start = 0u;
    let end = p.each;
    var best: f32 = 0;
    for (var r = start + l; r < end; r += 64u) {
        let e = s * 1000u + r;
        let u0 = in0[e];
        let u1 = in1[e];
        let u2 = u0 * u1;
        best = best + u2;
    }
    part[l] = best;
    }
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if l < half { part[l] = part[l] + part[l + half]; }
        workgroupBarrier();
    }
    if l > 0u { return; }
    let best = part[0];
    let result = best;
    let v1 = sqrt(result);
    out0[o] = v1;
}
