// grid [1, 2, 1], sizes [70, 32, 64], 0 scalars
struct Params { m: u32, k: u32, n: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in2: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out0: array<vec4<f32>>;

fn finish(e: u32, x: vec4<f32>) {
    let i = e / 4u;
    let v1 = in2[(e % 64u) / 4u];
    let v2 = x + v1;
    let v3 = select(v2, vec4<f32>(0), v2 < vec4<f32>(0));
    out0[i] = v3;
}

@compute @workgroup_size(8, 8)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y * 8u;
    let column = id.x * 8u;
    if row >= p.m || column >= p.n { return; }
    let left = 0u;
    let right = 0u;
    let r0 = (left + min(row + 0u, p.m - 1u) * p.k) / 4u;
    var sum0_0 = vec4<f32>();
    var sum0_1 = vec4<f32>();
    let r1 = (left + min(row + 1u, p.m - 1u) * p.k) / 4u;
    var sum1_0 = vec4<f32>();
    var sum1_1 = vec4<f32>();
    let r2 = (left + min(row + 2u, p.m - 1u) * p.k) / 4u;
    var sum2_0 = vec4<f32>();
    var sum2_1 = vec4<f32>();
    let r3 = (left + min(row + 3u, p.m - 1u) * p.k) / 4u;
    var sum3_0 = vec4<f32>();
    var sum3_1 = vec4<f32>();
    let r4 = (left + min(row + 4u, p.m - 1u) * p.k) / 4u;
    var sum4_0 = vec4<f32>();
    var sum4_1 = vec4<f32>();
    let r5 = (left + min(row + 5u, p.m - 1u) * p.k) / 4u;
    var sum5_0 = vec4<f32>();
    var sum5_1 = vec4<f32>();
    let r6 = (left + min(row + 6u, p.m - 1u) * p.k) / 4u;
    var sum6_0 = vec4<f32>();
    var sum6_1 = vec4<f32>();
    let r7 = (left + min(row + 7u, p.m - 1u) * p.k) / 4u;
    var sum7_0 = vec4<f32>();
    var sum7_1 = vec4<f32>();
    let c0 = (right + min(column + 0u, p.n - 4u)) / 4u;
    let c4 = (right + min(column + 4u, p.n - 4u)) / 4u;
    let across_left = p.m / 4u;
    let across_right = p.n / 4u;
    for (var k = 0u; k < p.k; k += 4u) {
        let a0 = in0[r0 + k / 4u];
        let a1 = in0[r1 + k / 4u];
        let a2 = in0[r2 + k / 4u];
        let a3 = in0[r3 + k / 4u];
        let a4 = in0[r4 + k / 4u];
        let a5 = in0[r5 + k / 4u];
        let a6 = in0[r6 + k / 4u];
        let a7 = in0[r7 + k / 4u];
        let b0_0 = in1[c0 + k * across_right];
        let b0_1 = in1[c4 + k * across_right];
        sum0_0 += a0[0] * b0_0;
        sum0_1 += a0[0] * b0_1;
        sum1_0 += a1[0] * b0_0;
        sum1_1 += a1[0] * b0_1;
        sum2_0 += a2[0] * b0_0;
        sum2_1 += a2[0] * b0_1;
        sum3_0 += a3[0] * b0_0;
        sum3_1 += a3[0] * b0_1;
        sum4_0 += a4[0] * b0_0;
        sum4_1 += a4[0] * b0_1;
        sum5_0 += a5[0] * b0_0;
        sum5_1 += a5[0] * b0_1;
        sum6_0 += a6[0] * b0_0;
        sum6_1 += a6[0] * b0_1;
        sum7_0 += a7[0] * b0_0;
        sum7_1 += a7[0] * b0_1;
        let b1_0 = in1[c0 + (k + 1u) * across_right];
        let b1_1 = in1[c4 + (k + 1u) * across_right];
        sum0_0 += a0[1] * b1_0;
        sum0_1 += a0[1] * b1_1;
        sum1_0 += a1[1] * b1_0;
        sum1_1 += a1[1] * b1_1;
        sum2_0 += a2[1] * b1_0;
        sum2_1 += a2[1] * b1_1;
        sum3_0 += a3[1] * b1_0;
        sum3_1 += a3[1] * b1_1;
        sum4_0 += a4[1] * b1_0;
        sum4_1 += a4[1] * b1_1;
        sum5_0 += a5[1] * b1_0;
        sum5_1 += a5[1] * b1_1;
        sum6_0 += a6[1] * b1_0;
        sum6_1 += a6[1] * b1_1;
        sum7_0 += a7[1] * b1_0;
        sum7_1 += a7[1] * b1_1;
        let b2_0 = in1[c0 + (k + 2u) * across_right];
        let b2_1 = in1[c4 + (k + 2u) * across_right];
        sum0_0 += a0[2] * b2_0;
        sum0_1 += a0[2] * b2_1;
        sum1_0 += a1[2] * b2_0;
        sum1_1 += a1[2] * b2_1;
        sum2_0 += a2[2] * b2_0;
        sum2_1 += a2[2] * b2_1;
        sum3_0 += a3[2] * b2_0;
        sum3_1 += a3[2] * b2_1;
        sum4_0 += a4[2] * b2_0;
        sum4_1 += a4[2] * b2_1;
        sum5_0 += a5[2] * b2_0;
        sum5_1 += a5[2] * b2_1;
        sum6_0 += a6[2] * b2_0;
        sum6_1 += a6[2] * b2_1;
        sum7_0 += a7[2] * b2_0;
        sum7_1 += a7[2] * b2_1;
        let b3_0 = in1[c0 + (k + 3u) * across_right];
        let b3_1 = in1[c4 + (k + 3u) * across_right];
        sum0_0 += a0[3] * b3_0;
        sum0_1 += a0[3] * b3_1;
        sum1_0 += a1[3] * b3_0;
        sum1_1 += a1[3] * b3_1;
        sum2_0 += a2[3] * b3_0;
        sum2_1 += a2[3] * b3_1;
        sum3_0 += a3[3] * b3_0;
        sum3_1 += a3[3] * b3_1;
        sum4_0 += a4[3] * b3_0;
        sum4_1 += a4[3] * b3_1;
        sum5_0 += a5[3] * b3_0;
        sum5_1 += a5[3] * b3_1;
        sum6_0 += a6[3] * b3_0;
        sum6_1 += a6[3] * b3_1;
        sum7_0 += a7[3] * b3_0;
        sum7_1 += a7[3] * b3_1;
    }
    if row + 0u < p.m {
        let e = (id.z * p.m + row + 0u) * p.n + column;
        { finish(e + 0u, sum0_0); }
        if column + 4u < p.n { finish(e + 4u, sum0_1); }
    }
    if row + 1u < p.m {
        let e = (id.z * p.m + row + 1u) * p.n + column;
        { finish(e + 0u, sum1_0); }
        if column + 4u < p.n { finish(e + 4u, sum1_1); }
    }
    if row + 2u < p.m {
        let e = (id.z * p.m + row + 2u) * p.n + column;
        { finish(e + 0u, sum2_0); }
        if column + 4u < p.n { finish(e + 4u, sum2_1); }
    }
    if row + 3u < p.m {
        let e = (id.z * p.m + row + 3u) * p.n + column;
        { finish(e + 0u, sum3_0); }
        if column + 4u < p.n { finish(e + 4u, sum3_1); }
    }
    if row + 4u < p.m {
        let e = (id.z * p.m + row + 4u) * p.n + column;
        { finish(e + 0u, sum4_0); }
        if column + 4u < p.n { finish(e + 4u, sum4_1); }
    }
    if row + 5u < p.m {
        let e = (id.z * p.m + row + 5u) * p.n + column;
        { finish(e + 0u, sum5_0); }
        if column + 4u < p.n { finish(e + 4u, sum5_1); }
    }
    if row + 6u < p.m {
        let e = (id.z * p.m + row + 6u) * p.n + column;
        { finish(e + 0u, sum6_0); }
        if column + 4u < p.n { finish(e + 4u, sum6_1); }
    }
    if row + 7u < p.m {
        let e = (id.z * p.m + row + 7u) * p.n + column;
        { finish(e + 0u, sum7_0); }
        if column + 4u < p.n { finish(e + 4u, sum7_1); }
    }
}
