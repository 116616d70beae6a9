// FUNCTION is replaced by a builtin of one argument; it is applied as a scalar and to vectors of every width.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(24)
fn unary(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x * 4u;
    if i >= arrayLength(&x) { return; }
    let v = vec4(x[i], x[i + 1u], x[i + 2u], x[i + 3u]);
    var r: vec4<f32>;
    switch id.x % 4u {
        case 0u: { r = vec4(FUNCTION(v.x), FUNCTION(v.y), FUNCTION(v.z), FUNCTION(v.w)); }
        case 1u: { r = vec4(FUNCTION(v.xy), FUNCTION(v.zw)); }
        case 2u: { r = vec4(FUNCTION(v.xyz), FUNCTION(v.w)); }
        default: { r = FUNCTION(v); }
    }
    y[i] = r.x;
    y[i + 1u] = r.y;
    y[i + 2u] = r.z;
    y[i + 3u] = r.w;
}
