// Determinants, and matrices built of columns and scalars.
@group(0) @binding(0) var<storage, read> m: array<mat4x4<f32>>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;

@compute @workgroup_size(5)
fn determinants(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&m) { return; }
    let a = m[id.x];
    let at = id.x * 4u;
    f[at] = determinant(a);
    f[at + 1u] = determinant(mat3x3(a[0].xyz, a[1].xyz, a[2].xyz));
    f[at + 2u] = determinant(mat2x2(a[0].x, a[0].y, a[1].x, a[1].y));
    f[at + 3u] = determinant(mat2x2<f32>(a[2].xy, a[3].zw) * 2.0);
}
