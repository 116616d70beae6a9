// Variables of every address space, arrays with dynamic indices, constants, initialisers, shadowing.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

const PRIMES = array<u32, 8>(2u, 3u, 5u, 7u, 11u, 13u, 17u, 19u);
const TABLE = array(vec3(1, 2, 3), vec3(-4, 5, -6));
const SCALE: u32 = 3u * 7u + 1u;
struct Pair { k: u32, v: vec2<u32> }
const PAIRS = array<Pair, 2>(Pair(5u, vec2(6u, 7u)), Pair(8u, vec2(9u, 10u)));
const_assert SCALE == 22u;

@compute @workgroup_size(21)
fn constants(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let i = a[id.x];
    let p = PAIRS[i % 2u];
    const local = SCALE << 2u;
    o[id.x] = PRIMES[i % 8u] * SCALE + bitcast<u32>(TABLE[i % 2u][i % 3u]) + p.k * 1000u + p.v[i & 1u] * 100000u + local;
}

@compute @workgroup_size(21)
fn function_arrays(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var list = array<u32, 7>(1u, 2u, 3u, 4u, 5u, 6u, 7u);
    var square: array<array<u32, 3>, 4>;
    for (var k = 0u; k < 7u; k++) { list[(k * 3u + id.x) % 7u] ^= a[id.x] >> k; }
    for (var k = 0u; k < 12u; k++) { square[k % 4u][k / 4u] += list[k % 7u] + k; }
    let copy = list;
    list[2] = 0u;
    o[id.x] = copy[id.x % 7u] * 5u + square[id.x % 4u][id.x % 3u] + list[(id.x + 2u) % 7u] + copy[2];
}

var<private> counter: u32 = 5u;
var<private> memory: array<vec2<u32>, 4> = array(vec2(1u, 2u), vec2(3u, 4u), vec2(5u, 6u), vec2(7u, 8u));
var<private> zeroed: array<u32, 3>;
fn bump(by: u32) -> u32 { counter += by; return counter; }

// Every invocation has its own private memory, initialised anew.
@compute @workgroup_size(21)
fn privates(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let first = bump(a[id.x] % 10u);
    let second = bump(2u);
    memory[id.x % 4u].y += first;
    memory[second % 4u] *= 3u;
    zeroed[id.x % 3u] += 1u;
    let all = memory[0] + memory[1] + memory[2] + memory[3];
    o[id.x] = all.x + all.y * 100u + counter * 10000u + (zeroed[0] + 2u * zeroed[1] + 4u * zeroed[2]) * 1000000u;
}

// A variable declared in a loop is new in each iteration, and zero where nothing else is said.
@compute @workgroup_size(21)
fn fresh_variables(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var sum = 0u;
    for (var i = 0u; i < a[id.x] % 9u; i++) {
        var fresh: u32;
        var list: array<u32, 4>;
        var v: vec3<u32>;
        list[i % 4u] += i + 1u;
        fresh += list[0] + list[1] + list[2] + list[3];
        v.y += fresh;
        if i % 2u == 1u { fresh += 100u; }
        sum += fresh + v.x + v.y + v.z;
    }
    o[id.x] = sum;
}

@compute @workgroup_size(21)
fn shadowing(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let a = a[id.x];
    var x = a;
    {
        let x = x + 1u;
        {
            var x = x * 2u;
            x += 3u;
            if x % 2u == 1u { let x = 7u; o[id.x] += x; }
            o[id.x] += x;
        }
        o[id.x] += x;
    }
    for (var x = 0u; x < 3u; x++) { o[id.x] += x; }
    x += 1u;
    o[id.x] += x;
}

var<workgroup> shared_list: array<u32, 21>;
var<workgroup> shared_pair: Pair;
// Workgroup memory starts as zeros in every group.
@compute @workgroup_size(21)
fn workgroup_zeros(@builtin(local_invocation_index) l: u32, @builtin(global_invocation_id) id: vec3<u32>) {
    let before = shared_list[20u - l] + shared_pair.v.x;
    workgroupBarrier();
    shared_list[l] = l + 1u;
    if l == 3u { shared_pair = Pair(4u, vec2(5u, 6u)); }
    workgroupBarrier();
    o[id.x] = before * 1000u + shared_list[20u - l] + shared_pair.v.y + a[id.x % 5u];
}

// Booleans, matrices and vectors of three, kept in private and workgroup memory and changed in part.
var<private> truths: array<bool, 5>;
var<private> masks: array<vec3<bool>, 2>;
var<private> table: mat3x2<f32>;
var<workgroup> walls: array<vec3<u32>, 7>;
var<workgroup> seen: array<bool, 7>;
var<workgroup> plane: mat2x4<f32>;
fn note(p: ptr<private, array<bool, 5>>, at: u32) -> u32 { (*p)[at % 5u] = !(*p)[at % 5u]; return u32((*p)[0]) + u32((*p)[4]) * 2u; }
// naga passes pointers to function and private memory only.
fn raise(at: u32, by: u32) -> u32 { let p = &walls[at]; (*p).y += by; return (*p).z; }
@compute @workgroup_size(7)
fn kinds_in_memory(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let x = a[id.x % arrayLength(&a)];
    let noted = note(&truths, x) + note(&truths, x / 5u) * 4u;
    masks[x % 2u] = vec3(truths[0], truths[1], truths[2]);
    masks[1][x % 3u] = true;
    table[x % 3u] = vec2(f32(x % 8u), 2.0);
    table[1][x % 2u] += 0.5;
    walls[l] = vec3(x, l, id.x);
    let high = raise(l, x % 100u);
    seen[l] = x % 2u == 1u;
    if l < 2u { plane[l] = vec4(f32(x % 16u), 1.0, 2.0, f32(l)); }
    workgroupBarrier();
    if l == 3u { plane[1].y = 7.0; }
    workgroupBarrier();
    let other = (l + 3u) % 7u;
    let p = plane * vec2(1.0, 2.0);
    o[id.x] = noted + u32(masks[0].x) * 16u + u32(all(masks[1])) * 32u + u32(any(masks[x % 2u])) * 64u + u32(seen[other]) * 128u
        + (walls[other].y + high) * 256u + u32(table[0].x + table[1].y * 4.0 + table[2].x + p.x + p.y) * 100000u;
}

// An array as a value, indexed dynamically, and one that a function returns.
fn make(seed: u32) -> array<u32, 5> { return array(seed, seed * 3u, seed ^ 5u, seed + 9u, 1u); }
@compute @workgroup_size(21)
fn value_arrays(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let made = make(a[id.x]);
    let second = array(made[id.x % 5u], made[(id.x + 2u) % 5u]);
    o[id.x] = second[id.x & 1u] + make(id.x)[id.x % 5u] + vec4(1u, 20u, 300u, 4000u)[id.x % 4u];
}
