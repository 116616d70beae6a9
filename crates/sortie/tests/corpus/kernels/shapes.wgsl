// What a device that runs invocations side by side could get wrong: indices and bounds of every shape, memory that changes between two
// reads, lanes that sit out, neighbours that must not be disturbed.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

// Indices that run forwards, backwards, in strides, that wrap, repeat, or are all the same.
@compute @workgroup_size(28)
fn index_shapes(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let n = arrayLength(&a);
    if id.x >= n { return; }
    let behind = id.x - 10u;
    var r = a[n - 1u - id.x] + a[id.x / 3u] * 3u + a[(id.x * 7u) % n] * 5u + a[id.x & 15u] * 7u + a[g.x] * 11u + a[l] * 13u + a[5] * 17u;
    if behind < n { r += a[behind] * 19u; }
    r += a[(id.x ^ 1u) % n] * 23u + a[(id.x * 0x80000001u) % n] * 29u + a[(id.x + 0xfffffff0u) % n] * 31u;
    r += a[min(id.x * 2u, n - 1u)] * 37u + a[max(id.x, 20u) - 20u] * 41u + a[select(0u, id.x, id.x % 2u == 0u)] * 43u;
    o[n - 1u - id.x] = r;
}

// Rows and columns: values that depend on x, on y, on both, on the group, and loops bounded by each.
@compute @workgroup_size(8, 4)
fn bounds_by_row_and_column(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let width = 8u * groups.x;
    var r = 0u;
    for (var k = 0u; k < id.y; k++) { r += a[k] * id.x; }
    for (var k = 0u; k < id.x % 5u; k++) { r ^= a[k + id.y] + k; }
    for (var k = g.x; k < g.x + 3u; k++) { r += a[k * g.y]; }
    for (var k = 0u; k < 4u; k++) { if k == id.y % 3u { continue; } r = r * 3u + k; if k > id.x { break; } }
    for (var k = 3u; k < 4u; k--) { r += a[k] >> k; }
    o[id.y * width + id.x] = r;
}

// Each read sees the last write before it, and what was read stays what it was.
@compute @workgroup_size(28)
fn reads_and_writes(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 4u >= arrayLength(&o) { return; }
    let at = id.x * 4u;
    let old = o[at];
    o[at] = old + 1u;
    let now = o[at];
    let first = o[at + 1u];
    o[at + 1u] = o[at + 2u];
    o[at + 2u] = first;
    for (var i = 0u; i < 5u; i++) {
        let before = o[at + 3u];
        o[at + 3u] = before * 3u + old;
        o[at + (i & 1u)] += o[at + 3u] - before;
        if o[at] % 2u == 0u { o[at + 2u] ^= now; }
    }
    o[at + 1u] += old * 100u + now;
}

// A word that all read at one place, and that another changes between two barriers.
var<workgroup> board: array<u32, 4>;
@compute @workgroup_size(28)
fn changed_by_others(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    var r = 0u;
    for (var i = 0u; i < 9u; i++) {
        let before = board[i % 4u];
        workgroupBarrier();
        if l == (i * 3u + g.x) % 28u { board[i % 4u] = before + a[id.x % arrayLength(&a)]; }
        workgroupBarrier();
        r = r * 3u + board[i % 4u] + before;
    }
    o[id.x] = r;
}

// What lanes that sit out would compute must do no harm: division by zero, indices far out, loops without end.
@compute @workgroup_size(28)
fn lanes_that_sit_out(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = arrayLength(&a);
    if id.x >= n { return; }
    let x = a[id.x];
    let d = bitcast<i32>(x % 3u) - 1;
    var list = array<u32, 4>(1u, 2u, 3u, 4u);
    var r = 0u;
    if d != 0 && !(x == 0x80000000u && d == -1) { r += bitcast<u32>(bitcast<i32>(x) / d) + bitcast<u32>(bitcast<i32>(x) % d); }
    if x < n { r += a[x]; }
    if x * 1000003u < n { r += a[x * 1000003u]; }
    if x < 4u { list[x] = 100u; r += list[x]; }
    if x % 5u == 2u { var k = x % 5u; while k != 0u { k -= 1u; r += list[k]; } }
    if x < 0x7f000000u { r += u32(bitcast<f32>(x & 0x4bffffffu)) % 1000u; }
    if x < 32u { r += 1u << x; }
    o[id.x] = r;
}

// Each group writes every fourth word, from its own on, and only some of them: those between belong to others.
@compute @workgroup_size(28)
fn interleaved_stores(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    for (var k = 0u; k < 5u; k++) {
        let at = (k * 28u + l) * 4u + g.x % 4u;
        if (l + k) % 3u == 0u && at < arrayLength(&o) { o[at] = at * 7u + 1u; }
    }
}

// The fourth word next to a vec3 belongs to another member.
struct Beside { v: vec3<u32>, w: u32 }
@group(0) @binding(1) var<storage, read_write> beside: array<Beside>;
@compute @workgroup_size(28)
fn beside_vectors(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x / 2u;
    if i >= arrayLength(&beside) { return; }
    if id.x % 2u == 0u { beside[i].v = vec3(i, i + 1u, i + 2u) * 3u; } else { beside[i].w = i * 5u + 1u; }
}

// Several bindings of one shape, one of them read and written at different places in one statement.
@group(0) @binding(2) var<storage, read_write> second: array<u32>;
@compute @workgroup_size(28)
fn two_outputs(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    o[id.x] = a[id.x] + second[id.x];
    second[id.x] = o[id.x] * 2u - a[id.x];
    o[id.x] += second[id.x];
}

// All write the same word to one place; each writes its own word to one of three places that only it and its like share.
@compute @workgroup_size(28)
fn same_value_to_one_place(@builtin(global_invocation_id) id: vec3<u32>) {
    o[0] = 42u;
    o[1u + id.x % 3u] = 100u + id.x % 3u;
}
