// grid [8, 1, 1], sizes [1000, 4286578688, 8], 1 scalars
struct Params { row: u32, low: u32, rows: u32, s0: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;

var<workgroup> part: array<f32, 64>;
@compute @workgroup_size(64)
fn rows(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    var sum = 0.0;
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let u0 = in0[e];
        out0[e] = u0;
        sum += u0;
    }
    part[l] = sum;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if l < half { part[l] = part[l] + part[l + half]; }
        workgroupBarrier();
    }
    let all = part[0];
    workgroupBarrier();
    let mean = all / f32(p.row);
    var squares = 0.0;
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let d = out0[e] - mean;
        squares += d * d;
    }
    part[l] = squares;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if l < half { part[l] = part[l] + part[l + half]; }
        workgroupBarrier();
    }
    let spread = part[0];
    workgroupBarrier();
    let by = inverseSqrt(spread / f32(p.row) + bitcast<f32>(p.s0));
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let x = (out0[e] - mean) * by;
        let v1 = in1[e % 1000u];
        let v2 = x * v1;
        out0[e] = v2;
    }
}
