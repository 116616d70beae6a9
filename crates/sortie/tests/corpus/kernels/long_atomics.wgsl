// Atomics on 64-bit integers.

struct Totals {
    sum: atomic<u64>,
    difference: atomic<u64>,
    most: atomic<u64>,
    least: atomic<u64>,
    any: atomic<u64>,
    all: atomic<u64>,
    odd: atomic<u64>,
    least_signed: atomic<i64>,
    most_signed: atomic<i64>,
    taken: atomic<u64>,
}

@group(0) @binding(0) var<storage, read> a: array<u64>;
@group(0) @binding(1) var<storage, read_write> totals: Totals;

@compute @workgroup_size(32) fn long_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    atomicAdd(&totals.sum, x);
    atomicSub(&totals.difference, x);
    atomicMax(&totals.most, x);
    atomicMin(&totals.least, x);
    atomicOr(&totals.any, x);
    atomicAnd(&totals.all, x);
    atomicXor(&totals.odd, x);
    atomicMin(&totals.least_signed, bitcast<i64>(x));
    atomicMax(&totals.most_signed, bitcast<i64>(x));
    let exchanged = atomicCompareExchangeWeak(&totals.taken, 5lu, 6lu);
    if exchanged.exchanged { atomicExchange(&totals.taken, exchanged.old_value + 1lu); }
}
