// grid [2, 1, 1], sizes [16, 4286578688, 128], 1 scalars
struct Params { row: u32, low: u32, rows: u32, s0: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;

@compute @workgroup_size(64)
fn rows(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= p.rows { return; }
    var most = bitcast<f32>(p.low);
    for (var c = 0u; c < p.row; c++) {
        let e = id.x * p.row + c;
        let u0 = in0[e];
        let u1 = f32(bitcast<f32>(p.s0));
        let u2 = u0 * u1;
        let u3 = in1[e % 256u];
        let u4 = u2 + u3;
        out0[e] = u4;
        most = select(select(most + u4, u4, u4 >= most), most, most > u4);
    }
    let top = most;
    var sum = 0.0;
    for (var c = 0u; c < p.row; c++) {
        let e = id.x * p.row + c;
        let x = exp(out0[e] - top);
        out0[e] = x;
        sum += x;
    }
    let all = sum;
    for (var c = 0u; c < p.row; c++) {
        let e = id.x * p.row + c;
        let x = out0[e] / all;
        out0[e] = x;
    }
}
