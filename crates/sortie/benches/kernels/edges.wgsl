struct Size { width: u32, height: u32, rate: f32 }
@group(0) @binding(0) var<uniform> size: Size;
@group(0) @binding(1) var<storage, read> old: array<f32>;
@group(0) @binding(2) var<storage, read_write> next: array<f32>;
fn at(x: i32, y: i32) -> f32 {
    if x < 0 || y < 0 || x >= i32(size.width) || y >= i32(size.height) { return 0.0; }
    return old[u32(y) * size.width + u32(x)];
}
@compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.width || id.y >= size.height { return; }
    let x = i32(id.x);
    let y = i32(id.y);
    var sum = 0.0;
    for (var dy = -1; dy <= 1; dy++) {
        for (var dx = -1; dx <= 1; dx++) {
            if dx != 0 || dy != 0 { sum += at(x + dx, y + dy); }
        }
    }
    let own = at(x, y);
    next[id.y * size.width + id.x] = own + size.rate * (sum - 8.0 * own);
}
