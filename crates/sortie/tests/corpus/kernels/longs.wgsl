// 64-bit integers.

@group(0) @binding(0) var<storage, read> a: array<u64>;
@group(0) @binding(1) var<storage, read> b: array<u64>;
@group(0) @binding(2) var<storage, read_write> o: array<u64>;

fn put(at: u32, number: u32, value: u64) { o[at + number] = value; }

fn bits(less: bool, less_or_equal: bool, more: bool, more_or_equal: bool, equal: bool, other: bool) -> u64 {
    return select(0lu, 1lu, less) + select(0lu, 2lu, less_or_equal) + select(0lu, 4lu, more)
        + select(0lu, 8lu, more_or_equal) + select(0lu, 16lu, equal) + select(0lu, 32lu, other);
}

@compute @workgroup_size(32) fn long_unsigned(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 16u;
    put(at, 0u, x + y);
    put(at, 1u, x - y);
    put(at, 2u, x * y);
    put(at, 3u, x / y);
    put(at, 4u, x % y);
    put(at, 5u, min(x, y));
    put(at, 6u, max(x, y));
    put(at, 7u, bits((x < y), (x <= y), (x > y), (x >= y), (x == y), (x != y)));
    put(at, 8u, x & y);
    put(at, 9u, x | y);
    put(at, 10u, x ^ y);
    put(at, 11u, ~x);
    put(at, 12u, x << (u32(y) & 31u));
    put(at, 13u, x >> (u32(y) & 31u));
    put(at, 14u, clamp(x, 5lu, 1099511627776lu));
    put(at, 15u, select(0x0123456789abcdeflu, x, (x > y)));
}

@compute @workgroup_size(32) fn long_signed(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = bitcast<i64>(a[id.x]);
    let y = bitcast<i64>(b[id.x]);
    let at = id.x * 13u;
    put(at, 0u, bitcast<u64>(x + y));
    put(at, 1u, bitcast<u64>(x - y));
    put(at, 2u, bitcast<u64>(x * y));
    put(at, 3u, bitcast<u64>(x / y));
    put(at, 4u, bitcast<u64>(x % y));
    put(at, 5u, bitcast<u64>(min(x, y)));
    put(at, 6u, bitcast<u64>(max(x, y)));
    put(at, 7u, bits((x < y), (x <= y), (x > y), (x >= y), (x == y), (x != y)));
    put(at, 8u, bitcast<u64>(-x));
    put(at, 9u, bitcast<u64>(abs(x)));
    put(at, 10u, bitcast<u64>(sign(x)));
    put(at, 11u, bitcast<u64>(x >> (u32(y) & 31u)));
    put(at, 12u, bitcast<u64>(clamp(x, -1099511627776li, 7li)));
}

@compute @workgroup_size(32) fn long_conversions(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 7u;
    let low = u32(x);
    let number = (x & 0xfffflu) << 16u;
    let float = f32(number);
    put(at, 0u, u64(low));
    put(at, 1u, bitcast<u64>(i64(bitcast<i32>(low))));
    put(at, 2u, u64(bool(x)) + u64(bool(y)));
    put(at, 3u, u64(bitcast<u32>(float)));
    put(at, 4u, u64(float));
    put(at, 5u, bitcast<u64>(i64(-float)));
    put(at, 6u, u64(i64(x)));
}

@compute @workgroup_size(32) fn long_vectors(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    let y = b[id.x];
    let at = id.x * 7u;
    let v = vec4<u64>(x, y, x + y, 3lu);
    let w = v * vec4<u64>(2lu);
    let index = u32(y & 3lu);
    var changed = w;
    changed[index] = 77lu;
    var list = array<u64, 5>(y, x, x ^ y, 34359738368lu, 9lu);
    let swapped = w.zyxw;
    put(at, 0u, swapped.x);
    put(at, 1u, swapped.y);
    put(at, 2u, v[index]);
    put(at, 3u, changed.x + changed.y + changed.z + changed.w);
    put(at, 4u, list[u32(x % 5lu)]);
    put(at, 5u, select(w, v, vec4<bool>((x < y))).y);
    put(at, 6u, max(v, w.wzyx).w);
}
