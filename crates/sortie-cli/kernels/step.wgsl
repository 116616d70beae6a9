@group(0) @binding(0) var<storage, read> last: array<u32>;
@group(0) @binding(1) var<storage, read_write> next: array<u32>;
@compute @workgroup_size(64)
fn step(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = arrayLength(&last);
    let neighbour = select(id.x + 1u, 0u, id.x + 1u == n);
    if id.x < n { next[id.x] = 1664525u * last[id.x] + last[neighbour] + 1013904223u; }
}
