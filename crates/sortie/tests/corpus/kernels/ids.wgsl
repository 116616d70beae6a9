// All inputs of an invocation, at the place that they say it has.
override x: u32;
override y: u32 = 1u;
override z: u32 = 1u;
@group(0) @binding(0) var<storage, read_write> o: array<u32>;

@compute @workgroup_size(x, y, z)
fn ids(
    @builtin(global_invocation_id) global: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let size = vec3(x, y, z);
    let number = group.x + groups.x * (group.y + groups.y * group.z);
    let at = (number * x * y * z + index) * 13u;
    let all = array<vec3<u32>, 4>(global, local, group, groups);
    for (var k = 0u; k < 12u; k++) { o[at + k] = all[k / 3u][k % 3u]; }
    o[at + 12u] = index + 1000u * u32(all[0].x == group.x * size.x + local.x);
}

// More groups than a driver takes in one dimension.
@compute @workgroup_size(1)
fn many_groups(@builtin(global_invocation_id) global: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    o[global.x] = group.x * 3u + groups.x;
}

struct Inputs { @builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) index: u32 }
@compute @workgroup_size(4, 3, 2)
fn ids_in_a_struct(in: Inputs, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = in.global.x + 4u * groups.x * (in.global.y + 3u * groups.y * in.global.z);
    o[at] = in.index * 100u + groups.z;
}
