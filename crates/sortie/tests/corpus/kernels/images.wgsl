// Pictures: fractals, automata, convolutions, rays.
struct Size { width: u32, height: u32 }
var<immediate> size: Size;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
@group(0) @binding(0) var<storage, read> cells: array<u32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;

fn escape(start: vec2<f32>, c: vec2<f32>) -> u32 {
    var z = start;
    var n = 0u;
    while n < 60u {
        if dot(z, z) > 4.0 { break; }
        z = vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) + c;
        n++;
    }
    return n;
}

@compute @workgroup_size(16, 4)
fn mandelbrot(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.width || id.y >= size.height { return; }
    let c = vec2(f32(id.x) / 32.0 - 2.0, f32(id.y) / 32.0 - 1.25);
    o[id.y * size.width + id.x] = escape(vec2(0.0), c);
}

@compute @workgroup_size(5, 7)
fn julia(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.width || id.y >= size.height { return; }
    let z = vec2(f32(id.x) / 16.0 - 1.5, f32(id.y) / 16.0 - 1.5);
    o[id.y * size.width + id.x] = escape(z, vec2(-0.75, 0.125));
}

fn alive(x: i32, y: i32) -> u32 {
    let w = i32(size.width);
    let h = i32(size.height);
    return cells[u32((y + h) % h * w + (x + w) % w)];
}
@compute @workgroup_size(8, 8)
fn game_of_life(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.width || id.y >= size.height { return; }
    let p = vec2<i32>(id.xy);
    var n = 0u;
    for (var dy = -1; dy <= 1; dy++) {
        for (var dx = -1; dx <= 1; dx++) {
            if dx == 0 && dy == 0 { continue; }
            n += alive(p.x + dx, p.y + dy);
        }
    }
    let here = alive(p.x, p.y);
    o[id.y * size.width + id.x] = select(0u, 1u, n == 3u || (n == 2u && here == 1u));
}

const KERNEL = array<f32, 7>(0.0625, 0.125, 0.25, 0.5, 0.25, 0.125, 0.0625);
@compute @workgroup_size(30)
fn convolution_1d(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = i32(arrayLength(&a));
    let at = i32(id.x);
    if at >= n { return; }
    var sum = 0.0;
    for (var k = -3; k <= 3; k++) {
        let from_ = at + k;
        if from_ >= 0 && from_ < n { sum += a[from_] * KERNEL[k + 3]; }
    }
    f[id.x] = sum;
}

// With a border in workgroup memory.
var<workgroup> tile: array<array<f32, 10>, 10>;
@compute @workgroup_size(8, 8)
fn convolution_2d(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    for (var i = l; i < 100u; i += 64u) {
        let p = vec2<i32>(vec2(g.x * 8u + i % 10u, g.y * 8u + i / 10u)) - 1;
        let q = clamp(p, vec2(0), vec2<i32>(vec2(size.width, size.height)) - 1);
        tile[i / 10u][i % 10u] = a[u32(q.y) * size.width + u32(q.x)];
    }
    workgroupBarrier();
    if id.x >= size.width || id.y >= size.height { return; }
    let x = l % 8u;
    let y = l / 8u;
    var sum = 0.0;
    for (var dy = 0u; dy < 3u; dy++) { for (var dx = 0u; dx < 3u; dx++) { sum += tile[y + dy][x + dx] * f32(1u + dx * dy); } }
    f[id.y * size.width + id.x] = sum;
}

struct Ray { origin: vec3<f32>, direction: vec3<f32> }
struct Sphere { center: vec3<f32>, radius: f32 }
struct Hit { distance: f32, index: i32 }
fn hit_sphere(ray: Ray, s: Sphere) -> f32 {
    let to = ray.origin - s.center;
    let b = dot(to, ray.direction);
    let d = b * b - dot(to, to) + s.radius * s.radius;
    if d < 0.0 { return -1.0; }
    return -b - sqrt(d);
}
const SPHERES = array<Sphere, 3>(Sphere(vec3(0.0, 0.0, 6.0), 2.0), Sphere(vec3(2.5, 1.0, 8.0), 3.0), Sphere(vec3(-3.0, -1.0, 5.0), 1.0));
@compute @workgroup_size(4, 4)
fn ray_spheres(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= size.width || id.y >= size.height { return; }
    let direction = normalize(vec3(f32(id.x) / 16.0 - 0.97, f32(id.y) / 16.0 - 0.98, 1.0));
    var best = Hit(1e6, -1);
    for (var i = 0; i < 3; i++) {
        let d = hit_sphere(Ray(vec3(0.0), direction), SPHERES[i]);
        if d > 0.0 && d < best.distance { best = Hit(d, i); }
    }
    f[id.y * size.width + id.x] = select(best.distance + f32(best.index) * 100.0, -1.0, best.index < 0);
}
