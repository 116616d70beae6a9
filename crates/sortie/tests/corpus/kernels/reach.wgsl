// Entry points that need little, beside others that need what not every device has: textures, f16, subgroups, numbers of 64 bits, many buffers.
enable f16;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> halves: array<f16>;
@group(0) @binding(2) var image: texture_2d<f32>;
@group(0) @binding(3) var picture: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(4) var filtering: sampler;
@group(0) @binding(5) var<storage, read_write> o: array<u32>;
@group(0) @binding(6) var<storage, read_write> spare: array<u32>;
@group(1) @binding(0) var<storage, read_write> longs: array<u64>;
@group(2) @binding(3) var<uniform> by: vec4<u32>;
const half = 0.5h;
override unset: f16;
var<immediate> shift: u32;
var<workgroup> halves_together: array<f16, 64>;
var<private> half_of_mine: f16;

fn halved(x: f16) -> f16 { return modf(x * half).fract + unset; }
fn scaled(x: u32) -> u32 { return x * by.y + by.w; }
fn twice_scaled(x: u32) -> u32 { return scaled(scaled(x)); }

@compute @workgroup_size(64)
fn with_f16(@builtin(local_invocation_index) i: u32) {
    half_of_mine = halved(halves[i]);
    halves_together[i] = half_of_mine;
    halves[i] = halves_together[63u - i];
}

@compute @workgroup_size(1)
fn with_textures() {
    textureStore(picture, vec2(0u), textureSampleLevel(image, filtering, vec2(0.5), 0.0));
}

@compute @workgroup_size(64)
fn with_subgroups(@builtin(local_invocation_index) i: u32) { o[i] = subgroupAdd(a[i]); }

@compute @workgroup_size(1)
fn with_longs() { longs[0] = longs[1] * 3lu; }

@compute @workgroup_size(64)
fn reached(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&o) { o[id.x] = 2u * a[id.x] + 1u; }
}

@compute @workgroup_size(64)
fn reached_through_calls(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&o) { o[id.x] = twice_scaled(id.x); }
}

@compute @workgroup_size(64)
fn reached_with_immediates(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&o) { o[id.x] = (a[id.x] << shift) + u32(frexp(f32(id.x + 1u)).exp); }
}

@compute @workgroup_size(64)
fn reached_by_name(@builtin(global_invocation_id) id: vec3<u32>) {
    _ = &spare;
    if id.x < arrayLength(&o) { o[id.x] = id.x; }
}
