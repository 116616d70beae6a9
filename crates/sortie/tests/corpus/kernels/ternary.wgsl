// CALL is replaced by a call of a builtin with a, b and c, or the first ones of them.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

fn one(a: f32, b: f32, c: f32) -> f32 { return CALL; }
fn two(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>) -> vec2<f32> { return CALL; }
fn three(a: vec3<f32>, b: vec3<f32>, c: vec3<f32>) -> vec3<f32> { return CALL; }
fn four(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>) -> vec4<f32> { return CALL; }

@compute @workgroup_size(24)
fn ternary(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x * 4u;
    let n = arrayLength(&y);
    if i >= n { return; }
    let a = vec4(x[i], x[i + 1u], x[i + 2u], x[i + 3u]);
    let b = vec4(x[n + i], x[n + i + 1u], x[n + i + 2u], x[n + i + 3u]);
    let c = vec4(x[2u * n + i], x[2u * n + i + 1u], x[2u * n + i + 2u], x[2u * n + i + 3u]);
    var r: vec4<f32>;
    switch id.x % 4u {
        case 0u: { r = vec4(one(a.x, b.x, c.x), one(a.y, b.y, c.y), one(a.z, b.z, c.z), one(a.w, b.w, c.w)); }
        case 1u: { r = vec4(two(a.xy, b.xy, c.xy), two(a.zw, b.zw, c.zw)); }
        case 2u: { r = vec4(three(a.xyz, b.xyz, c.xyz), one(a.w, b.w, c.w)); }
        default: { r = four(a, b, c); }
    }
    y[i] = r.x;
    y[i + 1u] = r.y;
    y[i + 2u] = r.z;
    y[i + 3u] = r.w;
}
