// Linear algebra and what neural networks are made of.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(0) var<storage, read> a4: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b4: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c4: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;

struct Shape { m: u32, n: u32, k: u32 }
var<immediate> shape: Shape;

@compute @workgroup_size(64)
fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&a) { c[id.x] = 2.5 * a[id.x] + b[id.x]; }
}

@compute @workgroup_size(64)
fn relu_in_place(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&c) { c[id.x] = max(c[id.x], 0.0); }
}

@compute @workgroup_size(64)
fn elementwise_chain(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var x = a[id.x];
    x = x * 1.5 + 0.25;
    x = tanh(x);
    x = x * x - 0.5;
    x = exp(-abs(x));
    x = x / (1.0 + x);
    c[id.x] = sqrt(x);
}

@compute @workgroup_size(8, 8)
fn matmul_naive(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= shape.n || id.y >= shape.m { return; }
    var sum = 0.0;
    for (var k = 0u; k < shape.k; k++) { sum += a[id.y * shape.k + k] * b[k * shape.n + id.x]; }
    c[id.y * shape.n + id.x] = sum;
}

const TILE = 8u;
var<workgroup> tile_a: array<array<f32, 8>, 8>;
var<workgroup> tile_b: array<array<f32, 8>, 8>;
@compute @workgroup_size(8, 8)
fn matmul_tiled(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) l: vec3<u32>) {
    var sum = 0.0;
    for (var t = 0u; t < (shape.k + TILE - 1u) / TILE; t++) {
        let ka = t * TILE + l.x;
        let kb = t * TILE + l.y;
        if id.y < shape.m && ka < shape.k { tile_a[l.y][l.x] = a[id.y * shape.k + ka]; } else { tile_a[l.y][l.x] = 0.0; }
        if id.x < shape.n && kb < shape.k { tile_b[l.y][l.x] = b[kb * shape.n + id.x]; } else { tile_b[l.y][l.x] = 0.0; }
        workgroupBarrier();
        for (var k = 0u; k < TILE; k++) { sum += tile_a[l.y][k] * tile_b[k][l.x]; }
        workgroupBarrier();
    }
    if id.x < shape.n && id.y < shape.m { c[id.y * shape.n + id.x] = sum; }
}

// Each invocation makes four rows of four columns.
@compute @workgroup_size(4, 4)
fn matmul_blocked(@builtin(global_invocation_id) id: vec3<u32>) {
    let columns = shape.n / 4u;
    let row = id.y * 4u;
    if id.x >= columns || row >= shape.m { return; }
    var sums = array<vec4<f32>, 4>();
    for (var k = 0u; k < shape.k / 4u; k++) {
        let b0 = b4[(k * 4u) * columns + id.x];
        let b1 = b4[(k * 4u + 1u) * columns + id.x];
        let b2 = b4[(k * 4u + 2u) * columns + id.x];
        let b3 = b4[(k * 4u + 3u) * columns + id.x];
        for (var r = 0u; r < 4u; r++) {
            let v = a4[(row + r) * (shape.k / 4u) + k];
            sums[r] += v.x * b0 + v.y * b1 + v.z * b2 + v.w * b3;
        }
    }
    for (var r = 0u; r < 4u; r++) { c4[(row + r) * columns + id.x] = sums[r]; }
}

var<workgroup> square: array<f32, 272>;
@compute @workgroup_size(16, 16)
fn transpose_tiled(@builtin(local_invocation_id) l: vec3<u32>, @builtin(workgroup_id) g: vec3<u32>) {
    let from_ = vec2(g.x * 16u + l.x, g.y * 16u + l.y);
    if from_.x < shape.n && from_.y < shape.m { square[l.y * 17u + l.x] = a[from_.y * shape.n + from_.x]; }
    workgroupBarrier();
    let to = vec2(g.y * 16u + l.x, g.x * 16u + l.y);
    if to.x < shape.m && to.y < shape.n { c[to.y * shape.m + to.x] = square[l.x * 17u + l.y]; }
}

var<workgroup> row_part: array<f32, 32>;
@compute @workgroup_size(32)
fn softmax(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let base = g.x * shape.n;
    var top = -1e30;
    for (var i = l; i < shape.n; i += 32u) { top = max(top, a[base + i]); }
    row_part[l] = top;
    workgroupBarrier();
    for (var s = 16u; s > 0u; s /= 2u) { if l < s { row_part[l] = max(row_part[l], row_part[l + s]); } workgroupBarrier(); }
    top = row_part[0];
    workgroupBarrier();
    var sum = 0.0;
    for (var i = l; i < shape.n; i += 32u) { sum += exp(a[base + i] - top); }
    row_part[l] = sum;
    workgroupBarrier();
    for (var s = 16u; s > 0u; s /= 2u) { if l < s { row_part[l] += row_part[l + s]; } workgroupBarrier(); }
    sum = row_part[0];
    for (var i = l; i < shape.n; i += 32u) { c[base + i] = exp(a[base + i] - top) / sum; }
}

var<workgroup> moments: array<vec2<f32>, 32>;
@compute @workgroup_size(32)
fn layernorm(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let base = g.x * shape.n;
    var m = vec2<f32>();
    for (var i = l; i < shape.n; i += 32u) { let x = a[base + i]; m += vec2(x, x * x); }
    moments[l] = m;
    workgroupBarrier();
    for (var s = 16u; s > 0u; s /= 2u) { if l < s { moments[l] += moments[l + s]; } workgroupBarrier(); }
    let mean = moments[0].x / f32(shape.n);
    let variance = moments[0].y / f32(shape.n) - mean * mean;
    for (var i = l; i < shape.n; i += 32u) { c[base + i] = (a[base + i] - mean) * inverseSqrt(variance + 1e-3) * b[i]; }
}

@compute @workgroup_size(50)
fn gather(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&indices) { c[id.x] = a[indices[id.x]] * 2.0; }
}

@compute @workgroup_size(50)
fn scatter(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&indices) { c[indices[id.x]] = a[id.x] + 1.0; }
}

// Elimination with pivots, one matrix of 5 x 5 for each invocation.
@compute @workgroup_size(10)
fn elimination(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&c) { return; }
    var m: array<array<f32, 5>, 5>;
    for (var i = 0u; i < 25u; i++) { m[i / 5u][i % 5u] = a[id.x * 25u + i]; }
    var det = 1.0;
    for (var p = 0u; p < 5u; p++) {
        var best = p;
        for (var r = p + 1u; r < 5u; r++) { if abs(m[r][p]) > abs(m[best][p]) { best = r; } }
        if best != p { let t = m[best]; m[best] = m[p]; m[p] = t; det = -det; }
        det *= m[p][p];
        for (var r = p + 1u; r < 5u; r++) {
            let q = m[r][p] / m[p][p];
            for (var k = p; k < 5u; k++) { m[r][k] -= q * m[p][k]; }
        }
    }
    c[id.x] = det;
}
