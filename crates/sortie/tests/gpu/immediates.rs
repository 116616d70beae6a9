//! Immediates give the same answers natively, as a uniform and as storage.

use sortie::{DeviceOptions, Grid};

use crate::on_all_with;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    scale: [u32; 4],
    offset: u32,
    pad: [u32; 3],
}

/// The layout of this one suits a uniform.
const VECTORS: &str = "
    struct Params { scale: vec4<u32>, offset: u32 }
    var<immediate> params: Params;
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        x[id.x] = x[id.x] * params.scale[id.x % 4u] + params.offset;
    }
";

/// An array with a stride of 4 is a valid immediate, but no valid uniform.
const ARRAY: &str = "
    struct Params { offset: u32, scale: array<u32, 4> }
    var<immediate> params: Params;
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        x[id.x] = x[id.x] * params.scale[id.x % 4u] + params.offset;
    }
";

#[test]
fn each_dispatch_has_its_own_immediates_however_the_device_takes_them() {
    for native_immediates in [true, false] {
        on_all_with(&DeviceOptions::default().with_native_immediates(native_immediates), |device| {
            let (vectors, array) = (device.kernel(VECTORS)?, device.kernel(ARRAY)?);
            let x = device.upload(&[1_u32, 2, 3, 4])?;
            let mut expected = [1_u32, 2, 3, 4];
            let batch = device.batch();
            for offset in 0..50 {
                let scale = [1, 3, 5, offset % 3];
                batch.dispatch(&vectors, &[&x], Grid::groups(4)).immediates(&Params { scale, offset, pad: [0; 3] });
                batch
                    .dispatch(&array, &[&x], Grid::groups(4))
                    .immediates(&[offset, scale[0], scale[1], scale[2], scale[3]]);
                for _ in 0..2 {
                    expected =
                        std::array::from_fn(|index| expected[index].wrapping_mul(scale[index]).wrapping_add(offset));
                }
            }
            batch.submit()?;
            assert_eq!(x.download()?, expected);
            Ok(())
        });
    }
}

#[test]
fn immediates_and_a_folded_grid_go_together() {
    for native_immediates in [true, false] {
        on_all_with(&DeviceOptions::default().with_native_immediates(native_immediates), |device| {
            let kernel = device.kernel(
                "var<immediate> offset: u32;
                @group(0) @binding(0) var<storage, read_write> x: array<u32>;
                @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += id.x + offset; }",
            )?;
            let x = device.zeros::<u32>(100_000)?;
            let batch = device.batch();
            for offset in [1_u32, 20] {
                batch.dispatch(&kernel, &[&x], Grid::groups(100_000)).immediates(&offset);
            }
            batch.fill(x.slice(..10), 7);
            batch.submit()?;
            let right = |index: u32| if index < 10 { 7 } else { 2 * index + 21 };
            assert!(x.download()?.iter().zip(0..).all(|(found, index): (&u32, u32)| *found == right(index)));
            Ok(())
        });
    }
}
