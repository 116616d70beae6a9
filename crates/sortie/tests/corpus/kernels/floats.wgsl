// Floats beyond arithmetic: conversions, comparisons with NaN, parts, packing.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
@group(0) @binding(0) var<storage, read> w: array<u32>;

// NaN and infinity come in as data: a compiler may assume that arithmetic makes neither.
@compute @workgroup_size(32)
fn float_comparisons(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = arrayLength(&x);
    if id.x >= n || id.y >= n { return; }
    let a = x[id.x];
    let b = x[id.y];
    let at = (id.y * n + id.x) * 2u;
    o[at] = u32(a < b) | (u32(a <= b) << 1u) | (u32(a > b) << 2u) | (u32(a >= b) << 3u) | (u32(a == b) << 4u) | (u32(!(a < b)) << 5u);
    o[at + 1u] = u32(a != b);
}

@compute @workgroup_size(32)
fn float_to_integer(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    o[id.x * 2u] = u32(x[id.x]);
    o[id.x * 2u + 1u] = bitcast<u32>(i32(x[id.x]));
}

@compute @workgroup_size(32)
fn integer_to_float(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    f[id.x * 2u] = f32(w[id.x]);
    f[id.x * 2u + 1u] = f32(bitcast<i32>(w[id.x]));
}

@compute @workgroup_size(32)
fn integer_conversions(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    let i = i32(a);
    let back = u32(i);
    let v = vec3<i32>(vec3(a, a + 1u, a * 2u));
    let u = vec3<u32>(v);
    o[id.x] = back ^ u.x ^ (u.y << 1u) ^ (u.z << 2u) ^ u32(bool(a)) ^ (u32(bool(i)) << 4u);
}

@compute @workgroup_size(32)
fn bool_conversions(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    let v = x[id.x];
    let b = bool(v);
    let vb = vec2<bool>(vec2(v, v - 1.0));
    o[id.x] = u32(b) + 2u * u32(vb.y) + 4u * u32(i32(b)) + 8u * u32(f32(vb.x)) + 16u * u32(!b) + 32u * u32(b & vb.y) + 64u * u32(b | vb.y)
        + 128u * u32(b == vb.y) + 256u * u32(b != vb.y);
}

// Bits that are a number survive a trip through every type of their size.
@compute @workgroup_size(32)
fn bitcasts(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    let v = bitcast<vec3<f32>>(vec3(a, a ^ 0x80000000u, 0x3f800000u));
    let i = bitcast<vec3<i32>>(v);
    o[id.x * 2u] = bitcast<u32>(bitcast<f32>(bitcast<i32>(a)));
    o[id.x * 2u + 1u] = bitcast<u32>(i.y) ^ bitcast<u32>(i.z) ^ bitcast<u32>(-bitcast<f32>(a));
}

@compute @workgroup_size(32)
fn parts(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    let v = x[id.x];
    let m = modf(v);
    let mv = modf(vec2(v, v * 0.5));
    let at = id.x * 5u;
    f[at] = m.fract;
    f[at + 1u] = m.whole;
    f[at + 2u] = mv.fract.y;
    f[at + 3u] = mv.whole.y;
    f[at + 4u] = modf(-v).whole;
}

@compute @workgroup_size(32)
fn exponents(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    let v = x[id.x];
    let e = frexp(v);
    let ev = frexp(vec3(v, v * 8.0, -v));
    let at = id.x * 7u;
    f[at] = e.fract;
    f[at + 1u] = f32(e.exp);
    f[at + 2u] = ev.fract.z;
    f[at + 3u] = f32(ev.exp.y);
    f[at + 4u] = ldexp(e.fract, e.exp);
    f[at + 5u] = ldexp(v, i32(id.x % 21u) - 10);
    f[at + 6u] = ldexp(vec2(v, 1.0), vec2(3, i32(id.x % 9u))).y;
}

@compute @workgroup_size(32)
fn packing(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x * 4u;
    if i >= arrayLength(&x) { return; }
    let v = vec4(x[i], x[i + 1u], x[i + 2u], x[i + 3u]);
    let n = vec4<i32>(v * 200.0);
    let at = id.x * 8u;
    o[at] = pack4x8snorm(v);
    o[at + 1u] = pack4x8unorm(v);
    o[at + 2u] = pack2x16snorm(v.xy);
    o[at + 3u] = pack2x16unorm(v.zw);
    o[at + 4u] = pack4xI8(n);
    o[at + 5u] = pack4xU8(vec4<u32>(n));
    o[at + 6u] = pack4xI8Clamp(n);
    o[at + 7u] = pack4xU8Clamp(vec4<u32>(abs(n)));
}

@compute @workgroup_size(32)
fn packing_halves(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    o[id.x] = pack2x16float(vec2(x[id.x * 2u], x[id.x * 2u + 1u]));
}

@compute @workgroup_size(32)
fn unpacking(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let v = w[id.x];
    let at = id.x * 12u;
    let a = unpack4x8snorm(v);
    let b = unpack4x8unorm(v);
    let c = unpack2x16snorm(v);
    let d = unpack2x16unorm(v);
    for (var k = 0u; k < 4u; k++) {
        f[at + k] = a[k];
        f[at + 4u + k] = b[k];
    }
    f[at + 8u] = c.x;
    f[at + 9u] = c.y;
    f[at + 10u] = d.x;
    f[at + 11u] = d.y;
}

@compute @workgroup_size(32)
fn unpacking_halves(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let v = unpack2x16float(w[id.x]);
    f[id.x * 2u] = v.x;
    f[id.x * 2u + 1u] = v.y;
}

@compute @workgroup_size(32)
fn unpacking_bytes(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = unpack4xI8(w[id.x]);
    let b = unpack4xU8(w[id.x]);
    for (var k = 0u; k < 4u; k++) {
        o[id.x * 8u + k] = bitcast<u32>(a[k]);
        o[id.x * 8u + 4u + k] = b[k];
    }
}
