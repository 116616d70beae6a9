@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
fn erf(x: vec4<f32>) -> vec4<f32> {
    let c = clamp(x, vec4<f32>(-4.0), vec4<f32>(4.0));
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
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i >= arrayLength(&x) { return; }
    let a = x[i];
    let v = a * w[i % 256u] + b[i % 256u];
    let g = 0.5 * v * (1.0 + erf(v * 0.7071067811865476));
    y[i] = g * (1.0 / (1.0 + exp(-g))) + a;
}
