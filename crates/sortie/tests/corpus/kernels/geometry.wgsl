// Functions of whole vectors.
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;

@compute @workgroup_size(16)
fn products(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let a = x[id.x * 2u];
    let b = x[id.x * 2u + 1u];
    let c = cross(a.xyz, b.xyz);
    let at = id.x * 6u;
    f[at] = dot(a.xy, b.xy);
    f[at + 1u] = dot(a.xyz, b.xyz);
    f[at + 2u] = dot(a, b);
    f[at + 3u] = c.x;
    f[at + 4u] = c.y;
    f[at + 5u] = c.z;
}

@compute @workgroup_size(16)
fn lengths(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let a = x[id.x * 2u];
    let b = x[id.x * 2u + 1u];
    let at = id.x * 9u;
    f[at] = length(a.x);
    f[at + 1u] = length(a.xy);
    f[at + 2u] = length(a.xyz);
    f[at + 3u] = length(a);
    f[at + 4u] = distance(a.yz, b.yz);
    f[at + 5u] = distance(a, b);
    let n = normalize(a.xyz);
    f[at + 6u] = n.x;
    f[at + 7u] = n.y;
    f[at + 8u] = normalize(b).w;
}

@compute @workgroup_size(16)
fn reflections(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let e = normalize(x[id.x * 2u].xyz);
    let n = normalize(x[id.x * 2u + 1u].xyz);
    let s = faceForward(n, e, x[id.x * 2u + 1u].wzy);
    let r = reflect(e, n);
    // One that passes and one that may be reflected as a whole.
    let t = refract(e, n, 0.5);
    let u = refract(e, n, 3.0);
    let at = id.x * 12u;
    for (var k = 0u; k < 3u; k++) {
        f[at + k] = s[k];
        f[at + 3u + k] = r[k];
        f[at + 6u + k] = t[k];
        f[at + 9u + k] = u[k];
    }
}

@compute @workgroup_size(16)
fn mixes(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 2u >= arrayLength(&x) { return; }
    let a = x[id.x * 2u];
    let b = x[id.x * 2u + 1u];
    let m = mix(a, b, 0.25);
    let v = mix(a.xyz, b.xyz, vec3(0.0, 0.5, 1.0));
    let at = id.x * 8u;
    for (var k = 0u; k < 4u; k++) { f[at + k] = m[k]; }
    for (var k = 0u; k < 3u; k++) { f[at + 4u + k] = v[k]; }
    f[at + 7u] = (2.0 * a - b / 2.0 + 1.0 - (3.0 - a * b)).z;
}
