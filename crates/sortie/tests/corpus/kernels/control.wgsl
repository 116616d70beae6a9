// Control flow, with data that sends neighbours different ways.
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(33)
fn if_chains(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    var r = 1u;
    if x % 2u == 0u {
        r = 2u;
        if x % 3u == 0u { r = 3u; if x % 5u == 0u { r = 4u; } else { r += x; } }
    } else if x % 7u == 0u {
        r = 5u;
    } else if x > 0x80000000u {
        r = 6u;
        if x % 3u == 1u { r *= 10u; } else if x % 3u == 2u { r *= 11u; } else { }
    } else {
        if x % 11u < 5u { r = 7u; }
    }
    o[id.x] = r;
}

@compute @workgroup_size(33)
fn switches(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    var r = 0u;
    switch x % 10u {
        case 0u: { r = 100u; }
        case 1u, 2u, 3u: { r = 101u; if x > 1000u { break; } r += 50u; }
        default: { r = 102u; }
        case 5u: { r = 103u; }
        case 6u, 7u: {
            switch i32(x >> 4u) % 4 {
                case 0: { r = 104u; }
                case 1, -1: { break; }
                case 2: { r = 106u; if x % 3u == 0u { o[id.x] = 999u; return; } }
                default: { r = 107u; }
            }
            r += 1000u;
        }
    }
    switch bitcast<i32>(x) { case -2147483648: { r += 1u; } case -1: { r += 2u; } case 2147483647, 0: { r += 3u; } default {} }
    o[id.x] = r;
}

@compute @workgroup_size(33)
fn switches_in_loops(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var x = a[id.x];
    var r = 0u;
    for (var i = 0u; i < 20u; i++) {
        x = x * 1664525u + 1013904223u;
        switch (x >> 20u) % 6u {
            case 0u: { continue; }
            case 1u: { r += 1u; break; }
            case 2u, 3u: { if i > 10u { continue; } r += 10u; }
            case 4u: { for (var k = 0u; k < 3u; k++) { if k == 2u { break; } if x % 2u == 0u { continue; } r += 100u; } }
            default: { r ^= i; }
        }
        r += 10000u;
        if r > 150000u { break; }
    }
    o[id.x] = r;
}

@compute @workgroup_size(33)
fn loops_with_continuing(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let n = a[id.x] % 50u;
    var i = 0u;
    var r = 0u;
    loop {
        if i % 3u == 1u { i += 2u; continue; }
        r += i;
        if r > 200u { break; }
        continuing {
            let next = i + 1u;
            r += 1u;
            i = next;
            break if i >= n;
        }
    }
    var k = 0u;
    loop { k += 1u; if k >= n { break; } continuing { k += 1u; r += k; } }
    o[id.x] = r * 100u + i;
}

@compute @workgroup_size(33)
fn nested_loops(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x] % 1000u;
    var r = 0u;
    for (var i = 0u; i < x % 9u + 1u; i++) {
        for (var j = i; ; j++) {
            if j * j > x { break; }
            if (i + j) % 4u == 0u { continue; }
            var k = 3u;
            while k > 0u {
                k--;
                if (k + j) % 5u == 0u { break; }
                r += k + 1u;
            }
            r ^= j;
        }
        if r % 7u == 3u { continue; }
        r += 2u;
    }
    o[id.x] = r;
}

@compute @workgroup_size(33)
fn divergent_returns(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    o[id.x] = 1u;
    if x % 4u == 0u { return; }
    for (var i = 0u; i < 10u; i++) {
        o[id.x] += x % 5u + i;
        if o[id.x] > 30u {
            if x % 2u == 1u { return; }
            break;
        }
        while true { if (x >> i) % 2u == 1u { o[id.x] += 3u; } break; }
    }
    // A uniform loop, after some invocations have returned.
    for (var i = 0u; i < 5u; i++) { o[id.x] = o[id.x] * 3u + i; }
}

// Each invocation leaves its loops after its own count.
@compute @workgroup_size(33)
fn collatz(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    var n = a[id.x];
    var steps = 0u;
    while n != 1u {
        if n % 2u == 0u { n /= 2u; } else { n = 3u * n + 1u; }
        steps++;
    }
    o[id.x] = steps;
}

@compute @workgroup_size(33)
fn deep_divergence(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    var r = 0u;
    if (x & 1u) != 0u {
        for (var i = 0u; i < (x >> 1u) % 8u; i++) {
            if ((x >> i) & 2u) != 0u {
                if ((x >> i) & 4u) != 0u {
                    r += 1u;
                    if ((x >> i) & 8u) != 0u { r += 2u; continue; }
                    r += 4u;
                } else {
                    switch (x >> i) % 3u { case 0u: { r += 8u; } case 1u: { for (var k = 0u; k < i; k++) { r += k; if r % 3u == 0u { break; } } } default: { r += 16u; } }
                }
                r += 32u;
            } else if ((x >> i) & 16u) != 0u { break; }
            r += 64u;
        }
    } else {
        var y = x;
        loop { y = y / 2u; if y < 10u { break; } r += y & 3u; if y % 13u == 0u { r += 1000u; break; } }
    }
    o[id.x] = r;
}

// Nothing at all, then a loop that never runs, then one that leaves at once.
@compute @workgroup_size(33)
fn empty_bodies(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&a) { return; }
    let x = a[id.x];
    if x > 5u { } else { }
    switch x { default { } }
    for (var i = 0u; i < 0u; i++) { o[id.x] = 99u; }
    loop { break; }
    for (var i = x; i < x; i++) { o[id.x] = 98u; }
    { { } }
    o[id.x] += 3u;
    return;
}
