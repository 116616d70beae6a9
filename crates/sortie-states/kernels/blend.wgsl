// A word of four layers for each invocation, in integers alone: every device gives the same bits. The reference does the same.

struct Blend {
    /// Of all control points but the first.
    weights: vec3<u32>,
    /// What a weight of one is.
    whole: u32,
    /// The first control point, and how far it is to the next.
    first: u32,
    stride: u32,
    /// How many come after the first.
    degree: u32,
    /// Whether θ goes along the shorter arc.
    arc: u32,
}

@group(0) @binding(0) var<storage, read> points: array<u32>;
@group(0) @binding(1) var<storage, read> blends: array<Blend>;
@group(0) @binding(2) var<storage, read_write> states: array<u32>;

/// origin + (up - down) / whole, rounded half away from zero.
fn nearest(origin: i32, up: u32, down: u32, whole: u32) -> i32 {
    let far = select(down - up, up - down, up >= down);
    let steps = i32(far / whole);
    let twice = 2u * (far % whole);
    if up >= down {
        let at = origin + steps;
        return at + select(0, 1, twice > whole || (twice == whole && at >= 0));
    }
    let at = origin - steps;
    return at - select(0, 1, twice > whole || (twice == whole && at <= 0));
}

@compute @workgroup_size(64)
fn blend(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&states) { return; }
    let blend = blends[id.x / 4u];
    let part = id.x % 4u;
    var word = 0u;
    for (var lane = 0u; lane < 4u; lane++) {
        let start = coordinates(points[4u * blend.first + part], lane);
        var last = start;
        var away = vec2<i32>();
        var up = vec2<u32>();
        var down = vec2<u32>();
        for (var i = 0u; i < blend.degree; i++) {
            let next = coordinates(points[4u * (blend.first + (i + 1u) * blend.stride) + part], lane);
            let turn = next.y - last.y;
            away += vec2<i32>(next.x - last.x, select(turn, shorter(turn), blend.arc != 0u));
            last = next;
            up += blend.weights[i] * vec2<u32>(max(away, vec2<i32>()));
            down += blend.weights[i] * vec2<u32>(max(-away, vec2<i32>()));
        }
        // Between the control points: ρ needs no clamping.
        let rho = nearest(start.x, up.x, down.x, blend.whole);
        let theta = nearest(start.y, up.y, down.y, blend.whole);
        let byte = (u32(rho) & 15u) << 4u | (u32(theta) & 15u);
        word |= byte << (8u * lane);
    }
    states[id.x] = word;
}
