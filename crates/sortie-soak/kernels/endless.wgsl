@group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
@compute @workgroup_size(1) fn main() {
    loop { if atomicLoad(&x[0]) == 1u { break; } }
}
