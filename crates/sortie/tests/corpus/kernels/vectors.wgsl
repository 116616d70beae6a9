// Vectors: swizzles, components, constructors, operators by component.
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@group(0) @binding(1) var<storage, read_write> v3: array<vec3<u32>>;

@compute @workgroup_size(20)
fn swizzles(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    let a = x[id.x];
    let b = a.wzyx;
    let c = a.xxyy + b.zwzw;
    let d = a.rgb.bgr;
    let e = a.yx.xyxy.wz;
    let g = vec2(a.x, b.x).yx;
    let at = id.x * 8u;
    f[at] = b.x;
    f[at + 1u] = c.z;
    f[at + 2u] = c.w;
    f[at + 3u] = d.x;
    f[at + 4u] = e.x;
    f[at + 5u] = e.y;
    f[at + 6u] = g.x;
    f[at + 7u] = a.zzzz.w;
}

@compute @workgroup_size(20)
fn components(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    var a = w[id.x];
    let before = a;
    a.x = before.w;
    a.y += before.x;
    a[2] = a.z * 3u;
    a[id.x % 4u] ^= 0xffu;
    a.w++;
    var b = vec2(a.x, a.y);
    b[id.x & 1u] = 7u;
    b.g -= 1u;
    var c = vec3(b, a[(id.x + 1u) % 4u]);
    c.z = c[id.x % 3u] + before[3];
    let value = before[(id.x * 7u) % 4u];
    let at = id.x * 8u;
    for (var k = 0u; k < 4u; k++) { o[at + k] = a[k]; }
    o[at + 4u] = c.x;
    o[at + 5u] = c.y;
    o[at + 6u] = c.z;
    o[at + 7u] = value;
}

@compute @workgroup_size(20)
fn constructors(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    let splat = vec4(a.x);
    let mixed = vec4(a.xy, a.z, 1u) + vec4(a.x, a.yz, 2u) + vec4(vec3(a.y), a.w) + vec4(a.zw, a.wz);
    let zero = vec3<u32>();
    let converted = vec4<u32>(vec4<i32>(a)) - splat;
    let nested = vec4(vec2(a.x, a.y), vec2(zero.x, 5u));
    let r = mixed ^ (converted * 3u) ^ nested;
    for (var k = 0u; k < 4u; k++) { o[id.x * 4u + k] = r[k]; }
}

@compute @workgroup_size(20)
fn vector_operators(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    let b = a.yzwx;
    var r = a + b * 3u - 5u * a;
    r ^= a & b;
    r |= b >> vec4(3u, 7u, 11u, a.x);
    r -= (a << (b % 32u)) / (b | vec4(1u));
    let i = bitcast<vec4<i32>>(a);
    r += bitcast<vec4<u32>>(-i % vec4(1000, 77, -13, 5));
    r = min(r, ~a) + max(a, b.xxyy) - clamp(r, vec4(5u), vec4(500000u));
    for (var k = 0u; k < 4u; k++) { o[id.x * 4u + k] = r[k]; }
}

@compute @workgroup_size(20)
fn vector_booleans(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    let less = a < a.yzwx;
    let even = (a & vec4(1u)) == vec4<u32>();
    let both = less & even;
    let either = less | !even;
    var r = u32(all(either)) | (u32(any(both)) << 1u) | (u32(all(less == even)) << 2u) | (u32(any(less.xy)) << 3u) | (u32(all(a.x > 5u)) << 4u);
    let chosen = select(a, a.wzyx, less);
    let scalar = select(a.x, a.y, even.z);
    let whole = select(a.xy, a.zw, even.w);
    let at = id.x * 8u;
    o[at] = r;
    for (var k = 0u; k < 4u; k++) { o[at + 1u + k] = chosen[k]; }
    o[at + 5u] = scalar;
    o[at + 6u] = whole.x;
    o[at + 7u] = whole.y ^ u32(less[id.x % 4u]);
}

// A vec3 in memory takes four words; the fourth is padding.
@compute @workgroup_size(20)
fn padded_vectors(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&w) { return; }
    let a = w[id.x];
    v3[id.x] = a.zyx;
    v3[id.x].y = a.w + v3[id.x].x;
    v3[id.x][id.x % 3u] += 1u;
}
