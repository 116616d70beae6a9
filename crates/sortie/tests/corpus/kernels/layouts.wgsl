// Structs in memory: nested, aligned, padded, in arrays, in uniforms, before a runtime-sized array, as immediates.
struct Inner { a: u32, v: vec3<u32>, b: u32 }
struct Outer { first: u32, inner: Inner, pair: vec2<u32>, list: array<u32, 3>, last: u32 }
@group(0) @binding(0) var<storage, read> outers: array<Outer>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(9)
fn nested(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&outers) { return; }
    let s = outers[id.x];
    o[id.x] = s.first + 3u * s.inner.a + 5u * s.inner.v.y + 7u * s.inner.b + 11u * s.pair.x + 13u * s.list[id.x % 3u]
        + 17u * outers[id.x].last + 19u * outers[id.x].inner.v[id.x % 3u] + 23u * outers[id.x].pair[1];
}

@group(0) @binding(1) var<storage, read_write> written: array<Outer>;
@compute @workgroup_size(9)
fn written_structs(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&outers) { return; }
    var s = outers[id.x];
    s.inner.v = s.inner.v.zyx;
    s.list[id.x % 3u] += s.last;
    s.inner.b = arrayLength(&written);
    written[id.x] = s;
    written[id.x].inner.a *= 2u;
    written[id.x].list[1] ^= 0xf0u;
    written[id.x].pair = s.pair.yx;
    let whole = Inner(written[id.x].inner.a, written[id.x].inner.v + 1u, 9u);
    written[id.x].inner = whole;
}

struct Spread { @size(16) a: u32, @align(32) b: u32, @size(20) c: vec2<u32>, @align(16) d: u32 }
@group(0) @binding(0) var<storage, read> spreads: array<Spread>;
@compute @workgroup_size(9)
fn aligned(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&spreads) { return; }
    let s = spreads[id.x];
    o[id.x] = s.a + 3u * s.b + 5u * s.c.x + 7u * s.c.y + 11u * s.d;
}

struct Header { count: u32, scale: vec3<u32>, tail: array<vec2<u32>> }
@group(0) @binding(0) var<storage, read_write> header: Header;
@compute @workgroup_size(9)
fn runtime_tail(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= header.count || id.x >= arrayLength(&header.tail) { return; }
    header.tail[id.x] = header.tail[id.x].yx * header.scale.z + arrayLength(&header.tail);
}

struct Params { shift: vec3<f32>, factor: f32, m: mat3x3<f32>, thin: mat2x3<f32>, table: array<vec4<u32>, 3>, flag: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
@compute @workgroup_size(9)
fn uniforms(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&f) { return; }
    let v = vec3(f32(id.x), 1.0, -1.0);
    let r = params.m * v + params.shift * params.factor + params.thin * v.xy;
    f[id.x] = r[id.x % 3u] + f32(params.table[id.x % 3u][id.x % 4u]) + params.m[id.x % 3u].y + params.thin[id.x % 2u][id.x % 3u] + f32(params.flag);
}

struct Small { n: u32, offset: vec2<u32>, k: array<u32, 4>, w: vec3<u32> }
var<immediate> small: Small;
@compute @workgroup_size(9)
fn immediates(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= small.n || id.x >= arrayLength(&o) { return; }
    o[id.x] = small.k[id.x % 4u] * (id.x + small.offset.y) + small.offset[id.x & 1u] + small.w.z;
}

@group(0) @binding(0) var<storage, read> grid: array<array<array<u32, 3>, 5>>;
@compute @workgroup_size(9)
fn arrays_of_arrays(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&grid) { return; }
    let row = grid[id.x];
    var sum = 0u;
    for (var i = 0u; i < 5u; i++) {
        let inner = row[i];
        sum = sum * 31u + inner[(i + id.x) % 3u] + row[(i * 2u) % 5u][i % 3u] + grid[id.x][4u - i][0];
    }
    o[id.x] = sum;
}

struct Slim { m: mat2x2<f32>, t: mat3x2<f32>, k: f32 }
@group(0) @binding(0) var<storage, read> slims: array<Slim>;
@compute @workgroup_size(9)
fn matrices_in_structs(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&slims) { return; }
    let s = slims[id.x];
    f[id.x] = s.m[0].x + 2.0 * s.m[1].y + 4.0 * s.t[2].x + 8.0 * s.t[id.x % 3u].y + 16.0 * s.k + 32.0 * slims[id.x].m[id.x % 2u][0];
}

// Two groups with gaps in their numbers; one binding that is never used.
@group(1) @binding(3) var<storage, read> far: array<u32>;
@group(2) @binding(7) var<uniform> single: vec4<u32>;
@compute @workgroup_size(9)
fn scattered_bindings(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&far) { return; }
    o[id.x] = far[id.x] * single.z + single[id.x % 4u];
}
