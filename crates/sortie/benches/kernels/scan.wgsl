@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> sums: array<u32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var sum = x[id.x];
    sums[lane] = sum;
    workgroupBarrier();
    for (var distance = 1u; distance < 256u; distance *= 2u) {
        var below = 0u;
        if lane >= distance { below = sums[lane - distance]; }
        workgroupBarrier();
        sum += below;
        sums[lane] = sum;
        workgroupBarrier();
    }
    y[id.x] = sum;
}
