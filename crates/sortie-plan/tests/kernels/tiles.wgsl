// grid [2, 2, 3], sizes [96, 130, 102], 0 scalars
struct Params { m: u32, k: u32, n: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;

fn finish(e: u32, x: f32) {
    let i = e;
    out0[i] = x;
}

var<workgroup> left_tile: array<f32, 1024>;
var<workgroup> right_tile: array<f32, 1024>;

@compute @workgroup_size(16, 16)
fn product(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) own: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let row = group.y * 64u;
    let column = group.x * 64u;
    let left = group.z * (p.m * p.k);
    let right = group.z * (p.k * p.n);
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    for (var k = 0u; k < p.k; k += 16u) {
        for (var at = l; at < 1024u; at += 256u) {
            let r = at / 16u;
            let s = at % 16u;
            left_tile[s * 64u + r] = select(0.0, in0[left + min(row + r, p.m - 1u) * p.k + min(k + s, p.k - 1u)], k + s < p.k);
        }
        for (var at = l; at < 1024u; at += 256u) {
            let c = at / 16u;
            let s = at % 16u;
            right_tile[s * 64u + c] = select(0.0, in1[right + min(column + c, p.n - 1u) * p.k + min(k + s, p.k - 1u)], k + s < p.k);
        }
        workgroupBarrier();
        for (var s = 0u; s < 16u; s++) {
            let c = s * 64u + own.x * 4u;
            let b = vec4<f32>(right_tile[c], right_tile[c + 1u], right_tile[c + 2u], right_tile[c + 3u]);
            sum0 += left_tile[s * 64u + own.y * 4u + 0u] * b;
            sum1 += left_tile[s * 64u + own.y * 4u + 1u] * b;
            sum2 += left_tile[s * 64u + own.y * 4u + 2u] * b;
            sum3 += left_tile[s * 64u + own.y * 4u + 3u] * b;
        }
        workgroupBarrier();
    }
    let first = column + own.x * 4u;
    if first >= p.n { return; }
    let r0 = row + own.y * 4u + 0u;
    if r0 < p.m {
        let e = (group.z * p.m + r0) * p.n + first;
        if first + 0u < p.n { finish(e + 0u, sum0[0]); }
        if first + 1u < p.n { finish(e + 1u, sum0[1]); }
        if first + 2u < p.n { finish(e + 2u, sum0[2]); }
        if first + 3u < p.n { finish(e + 3u, sum0[3]); }
    }
    let r1 = row + own.y * 4u + 1u;
    if r1 < p.m {
        let e = (group.z * p.m + r1) * p.n + first;
        if first + 0u < p.n { finish(e + 0u, sum1[0]); }
        if first + 1u < p.n { finish(e + 1u, sum1[1]); }
        if first + 2u < p.n { finish(e + 2u, sum1[2]); }
        if first + 3u < p.n { finish(e + 3u, sum1[3]); }
    }
    let r2 = row + own.y * 4u + 2u;
    if r2 < p.m {
        let e = (group.z * p.m + r2) * p.n + first;
        if first + 0u < p.n { finish(e + 0u, sum2[0]); }
        if first + 1u < p.n { finish(e + 1u, sum2[1]); }
        if first + 2u < p.n { finish(e + 2u, sum2[2]); }
        if first + 3u < p.n { finish(e + 3u, sum2[3]); }
    }
    let r3 = row + own.y * 4u + 3u;
    if r3 < p.m {
        let e = (group.z * p.m + r3) * p.n + first;
        if first + 0u < p.n { finish(e + 0u, sum3[0]); }
        if first + 1u < p.n { finish(e + 1u, sum3[1]); }
        if first + 2u < p.n { finish(e + 2u, sum3[2]); }
        if first + 3u < p.n { finish(e + 3u, sum3[3]); }
    }
}
