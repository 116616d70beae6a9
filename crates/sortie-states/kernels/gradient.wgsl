// A word of four layers for each invocation.

/// The central difference of 2^(ρ/4) at ρ = 0.
override factor: f32;

@group(0) @binding(0) var<storage, read> states: array<u32>;
@group(0) @binding(1) var<storage, read_write> slopes: array<vec2<f32>>;

@compute @workgroup_size(64)
fn gradient(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&states) { return; }
    for (var lane = 0u; lane < 4u; lane++) {
        let rho = coordinates(states[id.x], lane).x;
        // The magnitude does not depend on θ.
        slopes[4u * id.x + lane] = vec2<f32>(magnitude(rho) * factor, 0.0);
    }
}
