// Half-precision floats, in memory, in arithmetic and across conversions.
enable f16;
struct Mixed { a: f16, b: f16, c: f32, v: vec3<f16>, d: f16, m: mat2x2<f16> }
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
@group(0) @binding(0) var<storage, read> mixed: array<Mixed>;

@compute @workgroup_size(15)
fn half_arithmetic(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let a = x[id.x * 2u];
    let b = x[id.x * 2u + 1u];
    let at = id.x * 6u;
    y[at] = a + b;
    y[at + 1u] = a - b;
    y[at + 2u] = a * b;
    y[at + 3u] = -a;
    y[at + 4u] = max(a, b) + 2.0h;
    y[at + 5u] = select(a, b, a < b);
}

@compute @workgroup_size(15)
fn half_functions(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let a = x[id.x * 2u];
    let b = x[id.x * 2u + 1u];
    let at = id.x * 6u;
    y[at] = a / (abs(b) + 1.0h);
    y[at + 1u] = sqrt(abs(a));
    y[at + 2u] = floor(a) + fract(b);
    y[at + 3u] = clamp(a, -2.0h, 2.0h);
    y[at + 4u] = mix(a, b, 0.5h);
    y[at + 5u] = dot(vec3(a, b, 1.0h), vec3(1.0h, 2.0h, b));
}

@compute @workgroup_size(15)
fn half_conversions(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    let a = x[id.x];
    let at = id.x * 4u;
    f[at] = f32(a);
    f[at + 1u] = f32(i32(a));
    f[at + 2u] = f32(f16(f32(a) * 3.0));
    f[at + 3u] = f32(f16(i32(id.x) - 50)) + f32(f16(id.x)) + f32(f16(a > 0.0h)) + f32(vec2<f32>(vec2(a, 1.0h)).y);
}

@compute @workgroup_size(15)
fn half_structs(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&mixed) { return; }
    let s = mixed[id.x];
    f[id.x] = f32(s.a) + 2.0 * f32(s.b) + 4.0 * s.c + 8.0 * f32(s.v.x) + 16.0 * f32(s.v.z) + 32.0 * f32(s.d) + 64.0 * f32(s.m[id.x % 2u].y);
}

var<workgroup> tile: array<vec4<f16>, 15>;
@compute @workgroup_size(15)
fn half_vectors(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let i = id.x * 4u;
    let inside = i + 3u < arrayLength(&x);
    if inside { tile[l] = vec4(x[i], x[i + 1u], x[i + 2u], x[i + 3u]); }
    workgroupBarrier();
    if !inside { return; }
    var v = tile[l].wzyx;
    v.x += 1.0h;
    v[id.x % 4u] = v[(id.x + 1u) % 4u];
    let w = v * 2.0h - vec4(0.5h);
    for (var k = 0u; k < 4u; k++) { y[i + k] = w[k]; }
}

@compute @workgroup_size(15)
fn half_frexp(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 4u >= arrayLength(&x) { return; }
    let v = vec4(x[id.x * 4u], x[id.x * 4u + 1u], x[id.x * 4u + 2u], x[id.x * 4u + 3u]);
    let whole = frexp(v);
    let one = frexp(v.x);
    var exponent = frexp(v.yz).exp;
    exponent += vec2(1, 2);
    for (var k = 0u; k < 4u; k++) {
        f[id.x * 12u + k] = f32(whole.fract[k]);
        f[id.x * 12u + 4u + k] = f32(whole.exp[k]);
    }
    f[id.x * 12u + 8u] = f32(one.fract);
    f[id.x * 12u + 9u] = f32(one.exp - 1);
    f[id.x * 12u + 10u] = f32(exponent.x);
    f[id.x * 12u + 11u] = f32(exponent.y);
}
