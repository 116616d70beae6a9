const SIDE = 1024u;
@group(0) @binding(0) var<storage, read> old: array<f32>;
@group(0) @binding(1) var<storage, read_write> next: array<f32>;
@compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= SIDE || id.y >= SIDE { return; }
    let row = id.y * SIDE;
    let sides = old[row + max(id.x, 1u) - 1u] + old[row + min(id.x + 1u, SIDE - 1u)];
    let ends = old[(max(id.y, 1u) - 1u) * SIDE + id.x] + old[min(id.y + 1u, SIDE - 1u) * SIDE + id.x];
    next[row + id.x] = old[row + id.x] + 0.2 * (sides + ends - 4.0 * old[row + id.x]);
}
