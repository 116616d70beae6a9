@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&x) { return; }
    var v = x[id.x] * 2.0;
    v = v + 1.0;
    v = max(v, 0.0);
    v = tanh(v);
    v = exp(-v);
    y[id.x] = v * 0.5;
}
