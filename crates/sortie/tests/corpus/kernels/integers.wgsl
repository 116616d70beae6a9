// Integer arithmetic with run-time operands, over the whole range.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(32)
fn wrapping_u32(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 4u;
    o[at] = x + y;
    o[at + 1u] = x - y;
    o[at + 2u] = x * y;
    o[at + 3u] = x * 3u + y * 5u - (x + 7u) * (y - 9u);
}

@compute @workgroup_size(32)
fn wrapping_i32(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = bitcast<i32>(a[id.x]);
    let y = bitcast<i32>(b[id.x]);
    let at = id.x * 4u;
    o[at] = bitcast<u32>(x + y);
    o[at + 1u] = bitcast<u32>(x - y);
    o[at + 2u] = bitcast<u32>(x * y);
    o[at + 3u] = bitcast<u32>(-x);
}

@compute @workgroup_size(32)
fn division_u32(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let at = id.x * 2u;
    o[at] = a[id.x] / b[id.x];
    o[at + 1u] = a[id.x] % b[id.x];
}

@compute @workgroup_size(32)
fn division_i32(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = bitcast<i32>(a[id.x]);
    let y = bitcast<i32>(b[id.x]);
    let at = id.x * 2u;
    o[at] = bitcast<u32>(x / y);
    o[at + 1u] = bitcast<u32>(x % y);
}

@compute @workgroup_size(32)
fn division_of_vectors(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 3u + 2u >= arrayLength(&a) { return; }
    let at = id.x * 3u;
    let x = bitcast<vec3<i32>>(vec3(a[at], a[at + 1u], a[at + 2u]));
    let y = bitcast<vec3<i32>>(vec3(b[at], b[at + 1u], b[at + 2u]));
    let r = bitcast<vec3<u32>>(x / y + x % y + x / y.x + y.z % x);
    o[at] = r.x;
    o[at + 1u] = r.y;
    o[at + 2u] = r.z;
}

// The amount of a shift counts modulo 32.
@compute @workgroup_size(32)
fn shifts(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let by = b[id.x];
    let at = id.x * 4u;
    o[at] = x << by;
    o[at + 1u] = x >> by;
    o[at + 2u] = bitcast<u32>(bitcast<i32>(x) >> by);
    o[at + 3u] = bitcast<u32>(bitcast<i32>(x) << (by + 3u));
}

@compute @workgroup_size(32)
fn bitwise(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 4u;
    o[at] = x & y;
    o[at + 1u] = x | y;
    o[at + 2u] = x ^ y;
    o[at + 3u] = bitcast<u32>(~bitcast<i32>(x) ^ (bitcast<i32>(y) & ~bitcast<i32>(x))) | (~x & ~y);
}

@compute @workgroup_size(32)
fn comparisons(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let i = bitcast<i32>(x);
    let j = bitcast<i32>(y);
    var r = 0u;
    r |= u32(x < y) | (u32(x <= y) << 1u) | (u32(x > y) << 2u) | (u32(x >= y) << 3u) | (u32(x == y) << 4u) | (u32(x != y) << 5u);
    r |= (u32(i < j) << 8u) | (u32(i <= j) << 9u) | (u32(i > j) << 10u) | (u32(i >= j) << 11u) | (u32(i == j) << 12u) | (u32(i != j) << 13u);
    o[id.x] = r;
}

@compute @workgroup_size(32)
fn compound(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let y = b[id.x];
    var v = a[id.x];
    v += y; v *= 3u; v -= 7u; v ^= y; v |= 0x11u; v &= ~0x80u; v <<= y % 5u; v >>= y % 3u;
    v++; v++; v--;
    v /= (y | 1u); v %= (y >> 1u) | 1u;
    o[id.x] += v;
    o[id.x]++;
    o[id.x] ^= y;
    o[id.x]--;
    var s = bitcast<i32>(y);
    s += 5; s *= -3; s -= 11; s /= 7; s %= 1000; s--; s++; s >>= 1u; s <<= 2u;
    o[id.x] += bitcast<u32>(s);
}

@compute @workgroup_size(32)
fn extremes(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let i = bitcast<i32>(x);
    let j = bitcast<i32>(y);
    let at = id.x * 8u;
    o[at] = min(x, y);
    o[at + 1u] = max(x, y);
    o[at + 2u] = bitcast<u32>(min(i, j));
    o[at + 3u] = bitcast<u32>(max(i, j));
    o[at + 4u] = bitcast<u32>(abs(i));
    o[at + 5u] = bitcast<u32>(sign(i));
    o[at + 6u] = clamp(x, min(y, 1000u), max(y, 1000u));
    o[at + 7u] = bitcast<u32>(clamp(i, min(j, -5), max(j, -5)));
}

@compute @workgroup_size(32)
fn bits(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let i = bitcast<i32>(x);
    let at = id.x * 8u;
    o[at] = countOneBits(x);
    o[at + 1u] = countLeadingZeros(x);
    o[at + 2u] = countTrailingZeros(x);
    o[at + 3u] = reverseBits(x);
    o[at + 4u] = firstLeadingBit(x);
    o[at + 5u] = firstTrailingBit(x);
    o[at + 6u] = bitcast<u32>(firstLeadingBit(i));
    o[at + 7u] = bitcast<u32>(firstTrailingBit(i) + countOneBits(i) * 64 + countLeadingZeros(i) * 4096 + countTrailingZeros(i) * 262144);
    let v = vec2(x, b[id.x]);
    o[at + 3u] ^= reverseBits(v).y ^ countOneBits(v).x ^ firstLeadingBit(v).y ^ firstTrailingBit(v).x ^ countLeadingZeros(v).y;
}

@compute @workgroup_size(32)
fn fields(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let offset = y % 40u;
    let count = (y / 64u) % 40u;
    let at = id.x * 4u;
    o[at] = extractBits(x, offset, count);
    o[at + 1u] = bitcast<u32>(extractBits(bitcast<i32>(x), offset, count));
    o[at + 2u] = insertBits(x, y, offset, count);
    o[at + 3u] = bitcast<u32>(insertBits(bitcast<i32>(y), bitcast<i32>(x), offset, count));
}

@compute @workgroup_size(32)
fn packed_dots(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let at = id.x * 2u;
    o[at] = dot4U8Packed(a[id.x], b[id.x]);
    o[at + 1u] = bitcast<u32>(dot4I8Packed(a[id.x], b[id.x]));
}

@compute @workgroup_size(32)
fn vector_dots(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 3u;
    o[at] = dot(vec2(x, y), vec2(y, 3u));
    o[at + 1u] = bitcast<u32>(dot(bitcast<vec3<i32>>(vec3(x, y, x + y)), vec3(7, -9, 11)));
    o[at + 2u] = dot(vec4(x, y, x ^ y, 1u), vec4(y, x, 5u, x));
}
