// Workgroups that wait for others. What they hand on goes through atomics: WGSL promises nothing of other memory.
override size: u32 = 64u;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> states: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;
var<workgroup> shared_word: u32;
var<workgroup> ticket: u32;
var<workgroup> tile: array<u32, 1024>;

// Each workgroup waits for the one before it, and hands on what it made of its word.
@compute @workgroup_size(size)
fn chain(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if local == 0u {
        var before = 0u;
        if group.x > 0u {
            loop {
                before = atomicLoad(&states[group.x - 1u]);
                if before != 0u { break; }
            }
        }
        let own = (before * 3u + group.x) | 1u;
        atomicStore(&states[group.x], own);
        shared_word = own;
    }
    workgroupBarrier();
    o[group.x * size + local] = shared_word + local;
}

// Sums of a workgroup's part of `a`, up to each element.
fn scan_tile(group: u32, local: u32) -> u32 {
    tile[local] = a[group * size + local];
    workgroupBarrier();
    for (var step = 1u; step < size; step <<= 1u) {
        var below = 0u;
        if local >= step { below = tile[local - step]; }
        workgroupBarrier();
        tile[local] += below;
        workgroupBarrier();
    }
    return tile[local];
}

// A word says what its workgroup knows (nothing, the sum of its own part, the sum up to its end), and the sum.
const OWN = 0x40000000u;
const ALL = 0x80000000u;
const SUM = 0x3fffffffu;

// What comes before a workgroup: sums of their own parts, until one knows all.
fn look_back(group: u32, total: u32) -> u32 {
    var before = 0u;
    if group > 0u {
        atomicStore(&states[group], OWN | total);
        var at = group - 1u;
        loop {
            let word = atomicLoad(&states[at]);
            if word == 0u { continue; }
            before += word & SUM;
            if (word & ALL) != 0u { break; }
            at -= 1u;
        }
    }
    atomicStore(&states[group], ALL | (before + total));
    return before;
}

fn scan(group: u32, local: u32) {
    let own = scan_tile(group, local);
    if local == size - 1u { shared_word = look_back(group, own); }
    workgroupBarrier();
    o[group * size + local] = shared_word + own;
}

// Counts on workgroups that start in order.
@compute @workgroup_size(size)
fn look_back_scan(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    scan(group.x, local);
}

// Counts on nothing: workgroups are numbered as they start.
@compute @workgroup_size(size)
fn numbered_look_back_scan(@builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if local == 0u { ticket = atomicAdd(&states[groups.x], 1u); }
    let group = workgroupUniformLoad(&ticket);
    scan(group, local);
}

// Between the load and the store of a word no other workgroup may come.
@compute @workgroup_size(size)
fn ticket_lock(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if local == 0u {
        let own = atomicAdd(&states[0], 1u);
        loop {
            if atomicLoad(&states[1]) == own { break; }
        }
        let sum = atomicLoad(&states[2]);
        let rounds = atomicLoad(&states[3]);
        atomicStore(&states[2], sum + group.x + 1u);
        atomicStore(&states[3], rounds * 3u + 1u);
        atomicStore(&states[1], own + 1u);
    }
}
