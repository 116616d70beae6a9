// Copies the counts of an indirect grid, or zeros if one of them exceeds the device's limit.
struct Check {
    source: u32,
    destination: u32,
    most: u32,
}

var<immediate> check: Check;
@group(0) @binding(0) var<storage, read> counts: array<u32>;
@group(0) @binding(1) var<storage, read_write> checked: array<u32>;

@compute @workgroup_size(1)
fn main() {
    let groups = vec3<u32>(counts[check.source], counts[check.source + 1u], counts[check.source + 2u]);
    let allowed = select(vec3<u32>(), groups, all(groups <= vec3<u32>(check.most)));
    checked[check.destination] = allowed.x;
    checked[check.destination + 1u] = allowed.y;
    checked[check.destination + 2u] = allowed.z;
}
