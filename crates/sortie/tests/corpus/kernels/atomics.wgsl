// Atomics of every kind, on storage and workgroup memory, alone, in arrays and in structs.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> cells: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read_write> signed: array<atomic<i32>>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(37)
fn storage_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    atomicAdd(&cells[0], x);
    atomicSub(&cells[1], x);
    atomicMin(&cells[2], x);
    atomicMax(&cells[3], x);
    atomicAnd(&cells[4], x | 0xff0000ffu);
    atomicOr(&cells[5], x & 0x00ffff00u);
    atomicXor(&cells[6], x);
    // What an exchange takes out went in once: the sum of all that were taken, and of what is left, is the sum of all.
    let taken = atomicExchange(&cells[7], id.x);
    atomicAdd(&cells[8], taken);
    if x % 2u == 0u { atomicAdd(&cells[9], 1u); } else { atomicSub(&cells[9], 1u); }
}

@compute @workgroup_size(37)
fn signed_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = bitcast<i32>(a[id.x]);
    atomicAdd(&signed[0], x);
    atomicSub(&signed[1], x);
    atomicMin(&signed[2], x);
    atomicMax(&signed[3], x);
    atomicAnd(&signed[4], x | 0xff);
    atomicOr(&signed[5], x & 0xff);
    atomicXor(&signed[6], x);
}

// Each invocation gets a ticket of its own.
@compute @workgroup_size(37)
fn tickets(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    if a[id.x] % 3u != 0u {
        let ticket = atomicAdd(&cells[0], 1u);
        o[ticket] = 1u;
    }
}

// A loop around compareExchangeWeak: multiplication, which has no atomic of its own.
@compute @workgroup_size(37)
fn compare_exchange(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x] | 1u;
    var old = atomicLoad(&cells[id.x % 3u]);
    loop {
        let r = atomicCompareExchangeWeak(&cells[id.x % 3u], old, old * x);
        if r.exchanged { break; }
        old = r.old_value;
    }
}

struct Bin { count: atomic<u32>, weight: u32, cells: array<atomic<i32>, 3> }
var<workgroup> bins: array<Bin, 5>;
var<workgroup> total: atomic<u32>;
@compute @workgroup_size(37)
fn workgroup_atomics(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    if l < 5u { bins[l].weight = l + 1u; atomicStore(&bins[l].cells[1], -1000000); }
    workgroupBarrier();
    if id.x < arrayLength(&a) {
        let x = a[id.x];
        atomicAdd(&bins[x % 5u].count, 1u);
        atomicMin(&bins[x % 5u].cells[0], -i32(x % 1000u));
        atomicMax(&bins[x % 5u].cells[1], i32(x % 1000u));
        atomicXor(&bins[x % 5u].cells[2], bitcast<i32>(x));
        atomicOr(&total, 1u << (x % 32u));
    }
    workgroupBarrier();
    if l < 5u {
        let at = g.x * 26u + l * 5u;
        o[at] = atomicLoad(&bins[l].count);
        o[at + 1u] = bins[l].weight;
        for (var k = 0u; k < 3u; k++) { o[at + 2u + k] = bitcast<u32>(atomicLoad(&bins[l].cells[k])); }
    }
    if l == 7u { o[g.x * 26u + 25u] = atomicLoad(&total); }
}

var<workgroup> few: array<atomic<u32>, 5>;
@compute @workgroup_size(37)
fn workgroup_exchanges(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    if l < 4u { atomicStore(&few[l], 0xfffffff0u + l); }
    workgroupBarrier();
    let x = a[id.x % arrayLength(&a)];
    atomicSub(&few[0], x);
    atomicAnd(&few[1], x | 0xffu);
    // Multiplication again, now among the invocations of a group.
    var old = atomicLoad(&few[2]);
    while true {
        let r = atomicCompareExchangeWeak(&few[2], old, old * (x | 1u));
        if r.exchanged { break; }
        old = r.old_value;
    }
    let taken = atomicExchange(&few[3], x);
    atomicXor(&few[4], taken);
    workgroupBarrier();
    if l < 3u { o[g.x * 4u + l] = atomicLoad(&few[l]); }
    // What is left and all that was taken out is all that was put in, whatever the order.
    if l == 3u { o[g.x * 4u + 3u] = atomicLoad(&few[3]) ^ atomicLoad(&few[4]); }
}

struct Counters { pad: u32, hits: array<atomic<u32>, 4>, rest: array<atomic<u32>> }
@group(0) @binding(1) var<storage, read_write> counters: Counters;
@compute @workgroup_size(37)
fn atomics_in_structs(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    atomicAdd(&counters.hits[x % 4u], 1u);
    let p = &counters.rest[x % arrayLength(&counters.rest)];
    atomicAdd(p, x);
}

// All invocations write one word without an atomic: one of the values stays.
@group(0) @binding(1) var<storage, read_write> racy: array<u32>;
@compute @workgroup_size(37)
fn race(@builtin(global_invocation_id) id: vec3<u32>) {
    racy[1] = 1000u + id.x;
}
