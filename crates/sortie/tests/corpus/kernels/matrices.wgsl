// COLUMNS, ROWS and OTHER are replaced by 2, 3 or 4: m is a matrix of that shape, n one that it can be multiplied by.
struct Input {
    m: matCOLUMNSxROWS<f32>,
    n: matOTHERxCOLUMNS<f32>,
    v: vecCOLUMNS<f32>,
    u: vecROWS<f32>,
    s: f32,
}
@group(0) @binding(0) var<storage, read> inputs: array<Input>;
@group(0) @binding(1) var<storage, read_write> product: array<matOTHERxROWS<f32>>;
@group(0) @binding(2) var<storage, read_write> turned: array<matROWSxCOLUMNS<f32>>;
@group(0) @binding(3) var<storage, read_write> sums: array<matCOLUMNSxROWS<f32>>;
@group(0) @binding(4) var<storage, read_write> right: array<vecROWS<f32>>;
@group(0) @binding(5) var<storage, read_write> left: array<vecCOLUMNS<f32>>;
@group(0) @binding(6) var<storage, read_write> column: array<f32>;

@compute @workgroup_size(5)
fn shape(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&inputs) { return; }
    let in = inputs[id.x];
    product[id.x] = in.m * in.n;
    turned[id.x] = transpose(in.m);
    sums[id.x] = in.m * in.s + in.s * in.m - in.m;
    right[id.x] = in.m * in.v;
    left[id.x] = in.u * in.m;
    var copy = in.m;
    copy[id.x % COLUMNSu][id.x % ROWSu] += 1.0;
    copy[(id.x + 1u) % COLUMNSu] *= 2.0;
    column[id.x] = copy[id.x % COLUMNSu][id.x % ROWSu] + in.m[(id.x + 1u) % COLUMNSu].y + inputs[id.x].m[id.x % COLUMNSu][1];
}
