// Scans, sorts and histograms.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

// Inclusive, Hillis and Steele: two buffers by turns.
var<workgroup> turns: array<array<u32, 100>, 2>;
@compute @workgroup_size(100)
fn scan_hillis_steele(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    var now = 0u;
    turns[0][l] = a[id.x];
    workgroupBarrier();
    for (var by = 1u; by < 100u; by *= 2u) {
        if l >= by { turns[1u - now][l] = turns[now][l] + turns[now][l - by]; } else { turns[1u - now][l] = turns[now][l]; }
        now = 1u - now;
        workgroupBarrier();
    }
    o[id.x] = turns[now][l];
}

// Exclusive, Blelloch: up the tree and down again.
var<workgroup> tree: array<u32, 128>;
@compute @workgroup_size(64)
fn scan_blelloch(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let base = g.x * 128u;
    tree[2u * l] = a[base + 2u * l];
    tree[2u * l + 1u] = a[base + 2u * l + 1u];
    var offset = 1u;
    for (var d = 64u; d > 0u; d >>= 1u) {
        workgroupBarrier();
        if l < d { tree[offset * (2u * l + 2u) - 1u] += tree[offset * (2u * l + 1u) - 1u]; }
        offset *= 2u;
    }
    workgroupBarrier();
    if l == 0u { tree[127] = 0u; }
    for (var d = 1u; d < 128u; d *= 2u) {
        offset >>= 1u;
        workgroupBarrier();
        if l < d {
            let left = offset * (2u * l + 1u) - 1u;
            let right = offset * (2u * l + 2u) - 1u;
            let t = tree[left];
            tree[left] = tree[right];
            tree[right] += t;
        }
    }
    workgroupBarrier();
    o[base + 2u * l] = tree[2u * l];
    o[base + 2u * l + 1u] = tree[2u * l + 1u];
}

// A scan over many groups in three dispatches: within each, over their sums, and both together.
var<workgroup> block: array<u32, 40>;
fn scan_block(l: u32) {
    for (var by = 1u; by < 40u; by *= 2u) {
        workgroupBarrier();
        var add = 0u;
        if l >= by { add = block[l - by]; }
        workgroupBarrier();
        block[l] += add;
    }
    workgroupBarrier();
}
@compute @workgroup_size(40)
fn scan_blocks(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    if id.x < arrayLength(&a) { block[l] = a[id.x]; }
    scan_block(l);
    if id.x < arrayLength(&o) { o[id.x] = block[l]; }
    if l == 39u { sums[g.x] = block[39]; }
}
@compute @workgroup_size(40)
fn scan_sums(@builtin(local_invocation_index) l: u32) {
    if l < arrayLength(&sums) { block[l] = sums[l]; }
    scan_block(l);
    if l < arrayLength(&sums) { sums[l] = block[l]; }
}
@compute @workgroup_size(40)
fn add_sums(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) g: vec3<u32>) {
    if id.x < arrayLength(&o) && g.x > 0u { o[id.x] += sums[g.x - 1u]; }
}

@compute @workgroup_size(48)
fn histogram_global(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&a) { atomicAdd(&counts[a[id.x] >> 27u], 1u); }
}

var<workgroup> local_counts: array<atomic<u32>, 32>;
@compute @workgroup_size(48)
fn histogram_local(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(num_workgroups) n: vec3<u32>) {
    for (var i = id.x; i < arrayLength(&a); i += n.x * 48u) { atomicAdd(&local_counts[a[i] >> 27u], 1u); }
    workgroupBarrier();
    if l < 32u { let count = atomicLoad(&local_counts[l]); if count > 0u { atomicAdd(&counts[l], count); } }
}

var<workgroup> sorted: array<u32, 128>;
@compute @workgroup_size(64)
fn bitonic_local(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let base = g.x * 128u;
    sorted[l] = a[base + l];
    sorted[l + 64u] = a[base + l + 64u];
    for (var k = 2u; k <= 128u; k *= 2u) {
        for (var j = k / 2u; j > 0u; j /= 2u) {
            workgroupBarrier();
            let i = (l / j) * j * 2u + l % j;
            let up = (i & k) == 0u;
            let x = sorted[i];
            let y = sorted[i + j];
            if (x > y) == up { sorted[i] = y; sorted[i + j] = x; }
        }
    }
    workgroupBarrier();
    o[base + l] = sorted[l];
    o[base + l + 64u] = sorted[l + 64u];
}

// One step of a sort over many groups; the steps are dispatches.
struct Step { k: u32, j: u32 }
var<immediate> step: Step;
@compute @workgroup_size(32)
fn bitonic_step(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let other = i ^ step.j;
    if other <= i || other >= arrayLength(&o) { return; }
    let x = o[i];
    let y = o[other];
    if ((i & step.k) == 0u) == (x > y) { o[i] = y; o[other] = x; }
}

// Each invocation sorts sixteen words of its own.
@compute @workgroup_size(12)
fn insertion_sort(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 16u >= arrayLength(&a) { return; }
    var list: array<u32, 16>;
    for (var i = 0u; i < 16u; i++) { list[i] = a[id.x * 16u + i]; }
    for (var i = 1u; i < 16u; i++) {
        let x = list[i];
        var j = i;
        while j > 0u && list[j - 1u] > x { list[j] = list[j - 1u]; j--; }
        list[j] = x;
    }
    for (var i = 0u; i < 16u; i++) { o[id.x * 16u + i] = list[i]; }
}

// Quicksort with a stack of its own.
var<private> items: array<u32, 24>;
fn swap(i: u32, j: u32) { let t = items[i]; items[i] = items[j]; items[j] = t; }
fn divide(low: u32, high: u32) -> u32 {
    let pivot = items[high];
    var at = low;
    for (var i = low; i < high; i++) { if items[i] < pivot { swap(i, at); at++; } }
    swap(at, high);
    return at;
}
@compute @workgroup_size(12)
fn quicksort(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 24u >= arrayLength(&a) { return; }
    for (var i = 0u; i < 24u; i++) { items[i] = a[id.x * 24u + i]; }
    var stack: array<vec2<u32>, 24>;
    var top = 1u;
    stack[0] = vec2(0u, 23u);
    while top > 0u {
        top--;
        let range = stack[top];
        let middle = divide(range.x, range.y);
        if middle > range.x + 1u { stack[top] = vec2(range.x, middle - 1u); top++; }
        if middle + 1u < range.y { stack[top] = vec2(middle + 1u, range.y); top++; }
    }
    for (var i = 0u; i < 24u; i++) { o[id.x * 24u + i] = items[i]; }
}

// Which words are even, moved together in their order.
var<workgroup> flags: array<u32, 64>;
@compute @workgroup_size(64)
fn compaction(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let keep = a[id.x] % 2u == 0u;
    flags[l] = select(0u, 1u, keep);
    for (var by = 1u; by < 64u; by *= 2u) {
        workgroupBarrier();
        var add = 0u;
        if l >= by { add = flags[l - by]; }
        workgroupBarrier();
        flags[l] += add;
    }
    if keep { o[g.x * 64u + flags[l] - 1u] = a[id.x]; }
}
