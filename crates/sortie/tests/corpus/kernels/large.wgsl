// Enough work for all threads of a device at once.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;

@compute @workgroup_size(64)
fn many_items(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    o[id.x] = (x ^ (x >> 16u)) * 0x45d9f3bu + id.x;
}

// Each takes its own number of steps.
@compute @workgroup_size(64)
fn many_uneven_items(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var x = a[id.x];
    for (var i = 0u; i < a[id.x] % 37u; i++) { x = x * 1664525u + 1013904223u; }
    o[id.x] = x;
}

@compute @workgroup_size(100)
fn many_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    atomicAdd(&counts[a[id.x] % 11u], 1u);
    atomicMax(&counts[11u + id.x % 2u], a[id.x]);
    atomicXor(&counts[13], a[id.x]);
}

var<workgroup> part: array<u32, 128>;
@compute @workgroup_size(128)
fn many_groups_with_barriers(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    part[l] = select(0u, a[min(id.x, arrayLength(&a) - 1u)], id.x < arrayLength(&a));
    workgroupBarrier();
    for (var step = 64u; step > 0u; step /= 2u) {
        if l < step { part[l] = part[l] * 31u + part[l + step]; }
        workgroupBarrier();
    }
    if l == 0u { o[g.x] = part[0]; }
}

// A plane, where a row is longer than any vector of a machine and no multiple of one.
@compute @workgroup_size(16, 2)
fn large_plane(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = 333u;
    let height = 301u;
    if id.x >= width || id.y >= height { return; }
    let up = a[((id.y + height - 1u) % height) * width + id.x];
    let right = a[id.y * width + (id.x + 1u) % width];
    o[id.y * width + id.x] = up * 3u + right + id.y * 1000u;
}
