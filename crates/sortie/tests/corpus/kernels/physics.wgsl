// Bodies and waves.
struct Body { position: vec3<f32>, mass: f32, velocity: vec3<f32> }
struct Step { dt: f32, softening: f32 }
@group(0) @binding(0) var<storage, read> before: array<Body>;
@group(0) @binding(1) var<storage, read_write> after: array<Body>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(17)
fn bodies(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = arrayLength(&before);
    if id.x >= n { return; }
    var body = before[id.x];
    var pull = vec3<f32>();
    for (var i = 0u; i < n; i++) {
        if i == id.x { continue; }
        let other = before[i];
        let to = other.position - body.position;
        let d2 = dot(to, to) + step.softening;
        pull += to * (other.mass / (d2 * sqrt(d2)));
    }
    body.velocity += pull * step.dt;
    body.position += body.velocity * step.dt;
    after[id.x] = body;
}

// A transform of 64 complex numbers for each group, in workgroup memory.
@group(0) @binding(0) var<storage, read> signal: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> spectrum: array<vec2<f32>>;
var<workgroup> wave: array<vec2<f32>, 64>;
@compute @workgroup_size(32)
fn fft(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) g: vec3<u32>) {
    let base = g.x * 64u;
    for (var h = 0u; h < 2u; h++) { let i = l + 32u * h; wave[reverseBits(i) >> 26u] = signal[base + i]; }
    workgroupBarrier();
    for (var size = 1u; size < 64u; size *= 2u) {
        let k = l % size;
        let i = (l / size) * size * 2u + k;
        let angle = -3.14159265 * f32(k) / f32(size);
        let w = vec2(cos(angle), sin(angle));
        let even = wave[i];
        let odd = wave[i + size];
        let t = vec2(w.x * odd.x - w.y * odd.y, w.x * odd.y + w.y * odd.x);
        wave[i] = even + t;
        wave[i + size] = even - t;
        workgroupBarrier();
    }
    spectrum[base + l] = wave[l];
    spectrum[base + l + 32u] = wave[l + 32u];
}
