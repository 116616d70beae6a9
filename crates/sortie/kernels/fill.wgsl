// Fills `count` words from word `start` on with a repeating pattern.
struct Fill {
    start: u32,
    count: u32,
    period: u32,
    pattern: array<u32, 16>,
}

var<immediate> fill: Fill;
@group(0) @binding(0) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * 256u + lane;
    if index < fill.count {
        words[fill.start + index] = fill.pattern[index % fill.period];
    }
}
