@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> part: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) at: vec3<u32>,
        @builtin(workgroup_id) group: vec3<u32>) {
    part[at.x] = x[id.x];
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if at.x < half { part[at.x] += part[at.x + half]; }
        workgroupBarrier();
    }
    if at.x == 0u { y[group.x] = part[0]; }
}
