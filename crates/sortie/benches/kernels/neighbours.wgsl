struct Size { side: u32, count: u32, reach: f32 }
@group(0) @binding(0) var<uniform> size: Size;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read> points: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4<f32>>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.count { return; }
    let own = points[id.x].xyz;
    let cell = vec2<i32>(own.xy);
    var force = vec3<f32>();
    var near = 0.0;
    for (var dy = -1; dy <= 1; dy++) {
        for (var dx = -1; dx <= 1; dx++) {
            let other = cell + vec2<i32>(dx, dy);
            if any(other < vec2<i32>(0)) || any(other >= vec2<i32>(i32(size.side))) { continue; }
            let number = u32(other.y) * size.side + u32(other.x);
            let end = starts[number + 1u];
            for (var i = starts[number]; i < end; i++) {
                let offset = points[i].xyz - own;
                let square = dot(offset, offset);
                if i != id.x && square < size.reach * size.reach {
                    force += offset / (square + 0.01);
                    near += 1.0;
                }
            }
        }
    }
    result[id.x] = vec4<f32>(force, near);
}
