// A pair of states for each invocation.

struct Pair {
    a: array<u32, 4>,
    b: array<u32, 4>,
}

@group(0) @binding(0) var<storage, read> pairs: array<Pair>;
@group(0) @binding(1) var<storage, read_write> distances: array<f32>;

/// The cosine of so many sixteenths of a turn. WGSL's own may be off by 2^-11.
fn cosine(theta: i32) -> f32 {
    let eighths = min(theta & 15, 16 - (theta & 15));
    let quarter = vec4<f32>(1.0, 0.92387953, 0.70710678, 0.38268343);
    if eighths < 4 { return quarter[eighths]; }
    if eighths == 4 { return 0.0; }
    return -quarter[8 - eighths];
}

fn z(layer: vec2<i32>) -> vec2<f32> {
    return magnitude(layer.x) * vec2<f32>(cosine(layer.y), cosine(layer.y - 4));
}

/// Between two complex numbers.
@compute @workgroup_size(64)
fn state_distance(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&distances) { return; }
    var sum = 0.0;
    for (var layer = 0u; layer < 16u; layer++) {
        let a = coordinates(pairs[id.x].a[layer / 4u], layer % 4u);
        let b = coordinates(pairs[id.x].b[layer / 4u], layer % 4u);
        let apart = z(a) - z(b);
        sum += dot(apart, apart);
    }
    distances[id.x] = sqrt(sum);
}

/// Between two points of the log-polar plane. Up to the end these are integers.
@compute @workgroup_size(64)
fn geodesic_distance(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&distances) { return; }
    var squares = vec2<i32>();
    for (var layer = 0u; layer < 16u; layer++) {
        let a = coordinates(pairs[id.x].a[layer / 4u], layer % 4u);
        let b = coordinates(pairs[id.x].b[layer / 4u], layer % 4u);
        let apart = vec2<i32>(b.x - a.x, shorter(b.y - a.y));
        squares += apart * apart;
    }
    // (ln 2 / 4)² and (2π / 16)².
    distances[id.x] = sqrt(0.030028313 * f32(squares.x) + 0.15421257 * f32(squares.y));
}
