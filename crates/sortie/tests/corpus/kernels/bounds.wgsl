// Accesses out of bounds: nothing outside the binding and nothing else inside it may change.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@group(0) @binding(2) var<storage, read_write> good: array<u32>;

// A write past the end is dropped or lands on the last element.
@compute @workgroup_size(30)
fn writes_past_the_end(@builtin(global_invocation_id) id: vec3<u32>) {
    o[arrayLength(&o) + id.x * 1000u] = 77u;
    if id.x < arrayLength(&good) { good[id.x] = id.x + 1u; }
}

// A read past the end gives something of the same binding, or zero.
@compute @workgroup_size(30)
fn reads_past_the_end(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&good) { return; }
    let r = a[id.x + 5u];
    good[id.x] = select(r, a[id.x], id.x < 20u);
}

// An index out of an array in function, private or workgroup memory stays within it.
var<private> mine: array<u32, 4>;
var<workgroup> ours: array<u32, 8>;
@compute @workgroup_size(30)
fn indices_past_local_arrays(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    var before = 11u;
    var list: array<u32, 4>;
    var after = 13u;
    let far = a[id.x % arrayLength(&a)];
    list[far] = 5u;
    mine[far] = 6u;
    if l == 0u { ours[far] = 7u; }
    workgroupBarrier();
    let r = list[far] + mine[far] + ours[far] + vec4(1u, 2u, 3u, 4u)[min(far, 3u)];
    if id.x < arrayLength(&good) { good[id.x] = before * 100u + after + select(0u, 1u, r > 1000u); }
}
