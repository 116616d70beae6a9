// grid [128, 1, 1], sizes [16, 4286578688], 1 scalars
struct Params { row: u32, low: u32, s0: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;

var<workgroup> part: array<f32, 64>;
@compute @workgroup_size(64)
fn rows(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    var most = bitcast<f32>(p.low);
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let u0 = in0[e];
        let u1 = u0 * f32(bitcast<f32>(p.s0));
        let u2 = in1[e % 256u];
        let u3 = u1 + u2;
        out0[e] = u3;
        most = select(select(most + u3, u3, u3 >= most), most, most > u3);
    }
    part[l] = most;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if l < half { part[l] = select(select(part[l] + part[l + half], part[l + half], part[l + half] >= part[l]), part[l], part[l] > part[l + half]); }
        workgroupBarrier();
    }
    let top = part[0];
    workgroupBarrier();
    var sum = 0.0;
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let x = exp(out0[e] - top);
        out0[e] = x;
        sum += x;
    }
    part[l] = sum;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if l < half { part[l] = part[l] + part[l + half]; }
        workgroupBarrier();
    }
    let all = part[0];
    workgroupBarrier();
    for (var c = l; c < p.row; c += 64u) {
        let e = group.x * p.row + c;
        let x = out0[e] / all;
        out0[e] = x;
    }
}
