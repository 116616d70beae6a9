// Layers lie four to a word; `lane` says which.

/// ρ and θ.
fn coordinates(word: u32, lane: u32) -> vec2<i32> {
    let shift = 8u * lane;
    return vec2<i32>(extractBits(bitcast<i32>(word), shift + 4u, 4u), i32(extractBits(word, shift, 4u)));
}

/// The shorter way round; half a turn either way as it was.
fn shorter(turn: i32) -> i32 {
    return turn - select(0, 16, turn > 8) + select(0, 16, turn < -8);
}

fn magnitude(rho: i32) -> f32 {
    return select(exp2(f32(rho) / 4.0), 0.0, rho == -8);
}
