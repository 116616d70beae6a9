// grid [8, 1, 1], sizes [512], 1 scalars
struct Params { items: u32, s0: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<vec4<f32>>;

fn erf(x: vec4<f32>) -> vec4<f32> {
    let c = select(select(x, vec4<f32>(4.0), x > vec4<f32>(4.0)), vec4<f32>(-4.0), x < vec4<f32>(-4.0));
    let s = c * c;
    var p = s * -2.72614225801306e-10 + 2.77068142495902e-08;
    p = p * s + -2.10102402082508e-06;
    p = p * s + -5.69250639462346e-05;
    p = p * s + -7.34990630326855e-04;
    p = p * s + -2.95459980854025e-03;
    p = p * s + -1.60960333262415e-02;
    var q = s * -1.45660718464996e-05 + -2.13374055278905e-04;
    q = q * s + -1.68282697438203e-03;
    q = q * s + -7.37332916720468e-03;
    q = q * s + -1.42647390514189e-02;
    return c * p / q;
}
fn gelu(x: vec4<f32>) -> vec4<f32> {
    return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
}
@compute @workgroup_size(64)
fn map(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i >= p.items { return; }
    let e = i * 4u;
    let v0 = in0[i];
    let v1 = in1[(e % 32u) / 4u];
    let v2 = v0 * v1;
    let v3 = vec4<f32>(in2[e / 32u]);
    let v4 = v2 + v3;
    let v5 = gelu(v4);
    let v6 = vec4<f32>(bitcast<f32>(p.s0));
    let v7 = v5 * v6;
    let v8 = select(select(v7 + v0, v0, v0 >= v7), v7, v7 > v0);
    out0[i] = v8;
}
