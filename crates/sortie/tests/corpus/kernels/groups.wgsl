// Workgroups: barriers in uniform loops, uniform loads, overrides in sizes and expressions, reductions.
override width: u32 = 16u;
override factor: u32 = 3u;
override half_width = width / 2u;
@id(7) override bias: i32 = -4;
override flag: bool = false;
override scale: f32 = 1.5;

@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

var<workgroup> tile: array<u32, width>;
var<workgroup> doubled: array<u32, width * 2u>;
@compute @workgroup_size(width)
fn overrides(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    tile[l] = a[id.x] * factor;
    doubled[l * 2u] = a[id.x];
    doubled[l * 2u + 1u] = l;
    workgroupBarrier();
    var r = tile[(l + half_width) % width] + doubled[(l * 2u + 3u) % (width * 2u)];
    r += bitcast<u32>(bias);
    if flag { r ^= 0xffffu; }
    o[id.x] = r + u32(scale * 2.0);
}

// Barriers in a loop whose count is the same for all: a tree of sums.
var<workgroup> partial: array<u32, 64>;
@compute @workgroup_size(64)
fn reduction(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    var mine = 0u;
    if id.x < arrayLength(&a) { mine = a[id.x]; }
    partial[l] = mine;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step >>= 1u) {
        if l < step { partial[l] += partial[l + step]; }
        workgroupBarrier();
    }
    if l == 0u { o[g.x] = partial[0]; }
}

// All of the group see what one of them wrote, and go the same way.
var<workgroup> chosen: u32;
var<workgroup> limits: vec2<u32>;
@compute @workgroup_size(40)
fn uniform_loads(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    if l == 11u { chosen = a[g.x] % 7u; limits = vec2(g.x, a[g.x] % 3u); }
    let c = workgroupUniformLoad(&chosen);
    let v = workgroupUniformLoad(&limits);
    var r = c;
    for (var i = 0u; i < c; i++) {
        workgroupBarrier();
        if l == (i * 5u) % 40u { chosen += l; }
        workgroupBarrier();
        r = r * 2u + chosen;
    }
    if c == 3u { workgroupBarrier(); r += 1u; }
    o[id.x] = r + v.x * 1000u + v.y * 10000u;
}

// A barrier in a function, and storage that is handed from one to the next within the group.
fn hand_on(l: u32, base: u32) -> u32 {
    storageBarrier();
    workgroupBarrier();
    return o[base + (l + 1u) % 24u];
}
@compute @workgroup_size(24)
fn storage_barriers(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let base = id.x - l;
    o[id.x] = a[id.x];
    for (var i = 0u; i < 6u; i++) {
        let next = hand_on(l, base);
        storageBarrier();
        o[id.x] = next * 3u + l;
    }
}

// Those who have no work go to the barriers all the same; an early return is uniform.
var<workgroup> lanes: array<u32, 60>;
@compute @workgroup_size(6, 5, 2)
fn barriers_after_uniform_return(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    let number = g.x + n.x * g.y;
    if a[number] % 3u == 0u { return; }
    lanes[l] = l * a[number];
    workgroupBarrier();
    var sum = 0u;
    if l % 2u == 0u { for (var k = 0u; k <= l; k++) { sum += lanes[k]; } }
    workgroupBarrier();
    lanes[59u - l] = sum;
    workgroupBarrier();
    o[number * 60u + l] = lanes[l] + 1u;
}

// What only one of the group computes, between two barriers; the rest wait.
var<workgroup> prefix: array<u32, 50>;
@compute @workgroup_size(50)
fn one_works_for_all(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    prefix[l] = a[id.x] % 100u;
    workgroupBarrier();
    if l == 0u {
        for (var k = 1u; k < 50u; k++) { prefix[k] += prefix[k - 1u]; }
    }
    workgroupBarrier();
    o[id.x] = prefix[l];
}
