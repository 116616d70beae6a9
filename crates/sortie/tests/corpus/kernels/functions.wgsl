// Functions and pointers: nested calls, early returns, pointers of every address space, side effects.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

fn square(x: u32) -> u32 { return x * x; }
fn cube(x: u32) -> u32 { return square(x) * x; }
fn poly(x: u32, y: u32, z: u32) -> u32 { return cube(x) + square(y) * 3u + z; }
@compute @workgroup_size(19)
fn nested_calls(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    o[id.x] = poly(x, square(x + 1u), poly(x, 2u, cube(3u))) + poly(poly(x, x, x), 1u, square(square(x)));
}

// The first divisor from `from` on; several returns, one of them in a loop.
fn divisor(n: u32, from_: u32) -> u32 {
    if n < 2u { return 0u; }
    for (var d = from_; d * d <= n; d++) {
        if n % d == 0u { return d; }
        if d > 200u { return 1000000u + d; }
    }
    return n;
}
@compute @workgroup_size(19)
fn early_returns(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let n = a[id.x] % 100000u;
    let first = divisor(n, 2u);
    o[id.x] = first;
    if first == n { return; }
    o[id.x] += 7u * divisor(n / max(first, 1u), 2u);
}

fn add_to(p: ptr<function, u32>, by: u32) { *p += by; }
fn swap(p: ptr<function, u32>, q: ptr<function, u32>) { let t = *p; *p = *q; *q = t; }
fn twice(p: ptr<function, u32>) -> u32 { add_to(p, *p); return *p; }
@compute @workgroup_size(19)
fn function_pointers(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var x = a[id.x];
    var y = id.x;
    var z = 3u;
    add_to(&x, 5u);
    add_to(&y, x);
    swap(&x, &z);
    let p = &y;
    *p = *p ^ z;
    add_to(p, twice(&x));
    o[id.x] = x + 3u * y + 5u * z;
}

struct Item { k: u32, v: vec4<u32>, list: array<u32, 3> }
struct Box { items: array<Item, 3>, n: u32 }
var<private> boxed: Box;
var<workgroup> pooled: array<Item, 19>;
@group(0) @binding(1) var<storage, read_write> stored: array<Item>;

fn fill_private(p: ptr<private, Box>, seed: u32) { (*p).n = seed; for (var i = 0u; i < 3u; i++) { p.items[i].k = seed * (i + 1u); } }
fn sum_array(p: ptr<function, array<u32, 3>>) -> u32 { return (*p)[0] + (*p)[1] * 2u + (*p)[2] * 4u; }

@compute @workgroup_size(19)
fn pointers_into_memory(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let seed = a[id.x % arrayLength(&a)];
    fill_private(&boxed, seed);
    let e = &boxed.items[seed % 3u];
    let c = &(*e).v;
    (*c)[1] = 9u;
    (*c).w += (*e).k;
    e.list[2] = 4u;
    let w = &pooled[l];
    (*w).k = boxed.items[1].k;
    (*w).v = *c;
    let inner = &w.list[seed % 3u];
    *inner = 11u;
    workgroupBarrier();
    if id.x >= arrayLength(&stored) { return; }
    let s = &stored[id.x];
    *s = pooled[l];
    let sv = &(*s).v;
    (*sv)[2] = boxed.n + 1u;
    let sl = &s.list;
    (*sl)[0] += boxed.items[seed % 3u].list[2];
    var local = *sl;
    (*s).k += sum_array(&local);
}

fn shift_item(item: Item, by: u32) -> Item {
    var copy = item;
    copy.k += by;
    copy.v = copy.v.wxyz;
    copy.list[by % 3u] = by;
    return copy;
}
@compute @workgroup_size(19)
fn structs_by_value(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&stored) { return; }
    let x = a[id.x];
    let start = Item(x, vec4(1u, 2u, 3u, x), array(5u, 6u, 7u));
    let once = shift_item(start, x % 7u);
    stored[id.x] = shift_item(shift_item(once, 2u), start.k % 5u);
    stored[id.x].v.x += once.v.x + start.v.w;
}

// The right-hand side of && and || is evaluated only where the left one does not decide.
var<private> evaluated: u32;
fn tested(x: u32, bit: u32) -> bool { evaluated |= 1u << bit; return x % 2u == 0u; }
@compute @workgroup_size(19)
fn short_circuits(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    var r = 0u;
    if tested(x, 0u) && tested(x >> 1u, 1u) && tested(x >> 2u, 2u) { r |= 1u; }
    if tested(x >> 3u, 3u) || tested(x >> 4u, 4u) || tested(x >> 5u, 5u) { r |= 2u; }
    let b = (tested(x >> 6u, 6u) || tested(x >> 7u, 7u)) && (tested(x >> 8u, 8u) || tested(x >> 9u, 9u));
    r |= select(0u, 4u, b);
    // `&` and `|` evaluate both.
    if tested(x, 10u) & tested(x >> 1u, 11u) | tested(x, 12u) { r |= 8u; }
    o[id.x] = r | (evaluated << 8u);
}

// One function with pointers to different elements from many places.
fn rotate(state: ptr<function, array<u32, 4>>, at: u32) -> u32 {
    (*state)[at % 4u] = ((*state)[(at + 1u) % 4u] << 7u) | ((*state)[(at + 3u) % 4u] >> 3u);
    return (*state)[(at + 2u) % 4u] + at;
}
@compute @workgroup_size(19)
fn called_often(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var one = array(a[id.x], id.x, 3u, 4u);
    var two = array(9u, a[id.x], 7u, id.x);
    var sum = 0u;
    for (var i = 0u; i < 11u; i++) {
        sum += rotate(&one, i) ^ rotate(&two, i + sum);
        if sum % 3u == 0u { sum += rotate(&one, sum); } else { sum ^= rotate(&two, 1u); }
    }
    o[id.x] = sum + one[0] + two[3];
}

// Order of evaluation: from left to right.
var<private> step_count: u32;
fn next() -> u32 { step_count++; return step_count; }
@compute @workgroup_size(19)
fn evaluation_order(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    step_count = a[id.x] % 100u;
    let r = next() * 3u - next() + next() * poly(next(), next(), next());
    var list = array<u32, 3>();
    list[next() % 3u] += next();
    o[id.x] = r + list[0] + 10u * list[1] + 100u * list[2] + vec3(next(), next(), next()).y;
}
