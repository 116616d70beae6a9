// Random numbers, checksums, long integers, searches.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(26)
fn xorshift(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var s = a[id.x] | 1u;
    for (var i = 0u; i < 4u; i++) {
        s ^= s << 13u;
        s ^= s >> 17u;
        s ^= s << 5u;
        o[id.x * 4u + i] = s;
    }
}

fn pcg(state: ptr<function, u32>) -> u32 {
    let old = *state;
    *state = old * 747796405u + 2891336453u;
    let word = ((old >> ((old >> 28u) + 4u)) ^ old) * 277803737u;
    return (word >> 22u) ^ word;
}
@compute @workgroup_size(26)
fn pcg_numbers(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var state = a[id.x];
    for (var i = 0u; i < 4u; i++) { o[id.x * 4u + i] = pcg(&state); }
}

// The product of two words, in two words.
fn wide_product(x: u32, y: u32) -> vec2<u32> {
    let xl = x & 0xffffu;
    let xh = x >> 16u;
    let yl = y & 0xffffu;
    let yh = y >> 16u;
    let ll = xl * yl;
    let middle = xh * yl + (ll >> 16u);
    let cross_ = xl * yh + (middle & 0xffffu);
    return vec2((cross_ << 16u) | (ll & 0xffffu), xh * yh + (middle >> 16u) + (cross_ >> 16u));
}
@compute @workgroup_size(26)
fn philox(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var c = vec4(id.x, 0u, 7u, a[id.x]);
    var key = vec2(a[id.x], 0xdeadbeefu);
    for (var round = 0u; round < 10u; round++) {
        let p = wide_product(0xD2511F53u, c.x);
        let q = wide_product(0xCD9E8D57u, c.z);
        c = vec4(q.y ^ c.y ^ key.x, q.x, p.y ^ c.w ^ key.y, p.x);
        key += vec2(0x9E3779B9u, 0xBB67AE85u);
    }
    for (var i = 0u; i < 4u; i++) { o[id.x * 4u + i] = c[i]; }
}

@compute @workgroup_size(26)
fn crc32(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 8u >= arrayLength(&a) { return; }
    var crc = 0xffffffffu;
    for (var byte = 0u; byte < 32u; byte++) {
        crc ^= (a[id.x * 8u + byte / 4u] >> (8u * (byte % 4u))) & 0xffu;
        for (var bit = 0u; bit < 8u; bit++) { crc = (crc >> 1u) ^ (0xedb88320u & (0u - (crc & 1u))); }
    }
    o[id.x] = ~crc;
}

const ROUNDS = array<u32, 64>(
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u);
fn turn(x: u32, by: u32) -> u32 { return (x >> by) | (x << (32u - by)); }
// SHA-256 of messages of 32 bytes, given as eight big-endian words.
@compute @workgroup_size(26)
fn sha256(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 8u >= arrayLength(&a) { return; }
    var w: array<u32, 64>;
    for (var i = 0u; i < 8u; i++) { w[i] = a[id.x * 8u + i]; }
    w[8] = 0x80000000u;
    w[15] = 256u;
    for (var i = 16u; i < 64u; i++) {
        let s0 = turn(w[i - 15u], 7u) ^ turn(w[i - 15u], 18u) ^ (w[i - 15u] >> 3u);
        let s1 = turn(w[i - 2u], 17u) ^ turn(w[i - 2u], 19u) ^ (w[i - 2u] >> 10u);
        w[i] = w[i - 16u] + s0 + w[i - 7u] + s1;
    }
    let start = array<u32, 8>(0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u);
    var h = start;
    for (var i = 0u; i < 64u; i++) {
        let s1 = turn(h[4], 6u) ^ turn(h[4], 11u) ^ turn(h[4], 25u);
        let t1 = h[7] + s1 + ((h[4] & h[5]) ^ (~h[4] & h[6])) + ROUNDS[i] + w[i];
        let s0 = turn(h[0], 2u) ^ turn(h[0], 13u) ^ turn(h[0], 22u);
        let t2 = s0 + ((h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]));
        for (var k = 7u; k > 0u; k--) { h[k] = h[k - 1u]; }
        h[4] += t1;
        h[0] = t1 + t2;
    }
    for (var i = 0u; i < 8u; i++) { o[id.x * 8u + i] = h[i] + start[i]; }
}

// Fibonacci by powers of a matrix of words.
struct Square { a: u32, b: u32, c: u32, d: u32 }
fn times(x: Square, y: Square) -> Square { return Square(x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d); }
@compute @workgroup_size(26)
fn fibonacci(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var n = a[id.x];
    var base = Square(1u, 1u, 1u, 0u);
    var r = Square(1u, 0u, 0u, 1u);
    while n > 0u {
        if (n & 1u) == 1u { r = times(r, base); }
        base = times(base, base);
        n >>= 1u;
    }
    o[id.x] = r.b;
}

// Long integers of four words: their sum in five words and their product in eight.
@compute @workgroup_size(26)
fn long_integers(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 8u >= arrayLength(&a) { return; }
    let x = id.x * 8u;
    let y = x + 4u;
    var carry = 0u;
    for (var i = 0u; i < 4u; i++) {
        let s = a[x + i] + carry;
        let t = s + a[y + i];
        carry = select(0u, 1u, s < carry) + select(0u, 1u, t < s);
        o[id.x * 13u + i] = t;
    }
    o[id.x * 13u + 4u] = carry;
    var product: array<u32, 8>;
    for (var i = 0u; i < 4u; i++) {
        var high = 0u;
        for (var j = 0u; j < 4u; j++) {
            let p = wide_product(a[x + i], a[y + j]);
            let s = p.x + high;
            let t = s + product[i + j];
            high = p.y + select(0u, 1u, s < high) + select(0u, 1u, t < s);
            product[i + j] = t;
        }
        product[i + 4u] = high;
    }
    for (var i = 0u; i < 8u; i++) { o[id.x * 13u + 5u + i] = product[i]; }
}

// How many ways to place queens, with the column of the first given; backtracking without recursion.
@compute @workgroup_size(26)
fn queens(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let n = a[id.x];
    var columns: array<u32, 9>;
    var row = 0u;
    var count = 0u;
    var c = 0u;
    loop {
        var safe = c < n;
        for (var r = 0u; r < row; r++) {
            if !safe { break; }
            let d = max(columns[r], c) - min(columns[r], c);
            if d == 0u || d == row - r { safe = false; }
        }
        if safe {
            columns[row] = c;
            if row + 1u == n { count++; } else { row++; c = 0u; continue; }
        }
        c++;
        if c < n { continue; }
        // Back to a row that has columns left.
        var done = false;
        loop {
            if row == 0u { done = true; break; }
            row--;
            c = columns[row] + 1u;
            if c < n { break; }
        }
        if done { break; }
    }
    o[id.x] = count;
}

@compute @workgroup_size(1)
fn long_reduction() {
    var sum = 0u;
    for (var i = 0u; i < a[0]; i++) { sum = sum * 3u + (i ^ a[i % arrayLength(&a)]); }
    o[0] = sum;
}
