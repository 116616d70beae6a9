//! Dispatches, copies, fills, writes and reads give the right bytes.

use sortie::Grid;

use crate::{STEP, on_all, step};

#[test]
fn a_dispatch_covers_all_items_whatever_their_number() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        for len in [1_u32, 63, 64, 65, 1000, 100_000] {
            let data: Vec<u32> = (0..len).collect();
            let (x, y) = (device.upload(&data)?, device.zeros::<u32>(data.len())?);
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], Grid::items(len));
            let result = batch.read(&y);
            batch.submit()?;
            assert_eq!(result.wait()?, data.iter().map(|x| step(*x)).collect::<Vec<_>>());
        }
        Ok(())
    });
}

#[test]
fn a_thousand_chained_dispatches_arrive_in_order() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        let (x, y) = (device.upload(&[1_u32, 2, 3, 4])?, device.zeros::<u32>(4)?);
        let mut expected = [1_u32, 2, 3, 4];
        let batch = device.batch();
        for _ in 0..500 {
            batch.dispatch(&kernel, &[&x, &y], Grid::items(4));
            batch.dispatch(&kernel, &[&y, &x], Grid::items(4));
            expected = expected.map(|value| step(step(value)));
        }
        batch.submit()?;
        assert_eq!(x.download()?, expected);
        Ok(())
    });
}

#[test]
fn fills_set_every_element_of_any_size_and_nothing_else() {
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(device: &sortie::Device, value: T) -> sortie::Result<()> {
        for (len, start, end) in [(1, 0, 1), (7, 0, 7), (64, 0, 64), (1000, 4, 996), (100_000, 64, 100_000)] {
            let zero = T::zeroed();
            let x = device.zeros::<T>(len)?;
            let batch = device.batch();
            batch.fill(x.slice(start..end), value);
            batch.submit()?;
            let all = x.download()?;
            let right = |index: usize| if (start..end).contains(&index) { value } else { zero };
            assert!(
                all.iter().enumerate().all(|(index, found)| *found == right(index)),
                "{value:?} over {start}..{end} of {len}"
            );
        }
        Ok(())
    }
    on_all(|device| {
        check(device, 7_u8)?;
        check(device, 0x1234_u16)?;
        check(device, 1.5_f32)?;
        check(device, -0.0_f32)?;
        check(device, 0_u32)?;
        check(device, 2.5_f64)?;
        check(device, [1.0_f32, 2.0, 3.0])?;
        check(device, [1_u8, 2, 3])?;
        check(device, [9_u32; 16])?;
        check(device, [5_u8; 20])?;
        check(device, [1_u32, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17])
    });
}

#[test]
fn copies_between_and_within_buffers_are_as_if_through_a_third() {
    on_all(|device| {
        let data: Vec<u32> = (0..100).collect();
        let (x, y) = (device.upload(&data)?, device.zeros::<u32>(100)?);
        let batch = device.batch();
        batch.copy(x.slice(10..20), y.slice(50..60));
        batch.copy(x.slice(0..90), x.slice(10..100));
        batch.submit()?;
        let mut moved = data.clone();
        moved.copy_within(0..90, 10);
        assert_eq!(x.download()?, moved);
        assert_eq!(y.slice(48..62).download()?, [0, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0]);
        Ok(())
    });
}

#[test]
fn odd_lengths_of_small_elements_are_written_and_read_whole() {
    on_all(|device| {
        for len in 1..10_u8 {
            let data: Vec<u8> = (1..=len).collect();
            let x = device.upload(&data)?;
            assert_eq!(x.download()?, data);
            let y = device.zeros::<u8>(data.len())?;
            let batch = device.batch();
            batch.write(&y, &data);
            let (read, copy) = (batch.read(&y), batch.read(&x));
            batch.submit()?;
            assert_eq!((read.wait()?, copy.wait()?), (data.clone(), data));
        }
        Ok(())
    });
}

#[test]
fn uniforms_several_groups_and_gaps_between_them_bind_in_order() {
    on_all(|device| {
        let kernel = device.kernel(
            "struct Params { scale: vec4<u32>, offset: u32 }
            @group(2) @binding(5) var<storage, read_write> y: array<u32>;
            @group(0) @binding(3) var<uniform> params: Params;
            @group(0) @binding(1) var<storage, read> x: array<u32>;
            @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                y[id.x] = x[id.x] * params.scale[id.x] + params.offset;
            }",
        )?;
        let x = device.upload(&[1_u32, 2, 3, 4])?;
        let params = device.upload(&[10_u32, 20, 30, 40, 5, 0, 0, 0])?;
        let y = device.zeros::<u32>(4)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &params, &y], Grid::groups(1));
        batch.submit()?;
        assert_eq!(y.download()?, [15, 45, 95, 165]);
        Ok(())
    });
}

#[test]
fn override_constants_and_entry_points_are_chosen_by_name() {
    on_all(|device| {
        let source = "override factor: u32 = 2; @id(7) override extra: u32;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn one(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = id.x * factor + extra; }
            @compute @workgroup_size(1) fn two(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += 1000u; }";
        let module = device.module(source)?;
        assert_eq!(module.entries(), ["one", "two"]);
        let one = module.with("factor", 3).with("7", 4.0).kernel("one")?;
        let two = module.kernel("two")?;
        let x = device.zeros::<u32>(3)?;
        let batch = device.batch();
        batch.dispatch(&one, &[&x], Grid::groups(3));
        batch.dispatch(&two, &[&x], Grid::groups(3));
        batch.submit()?;
        assert_eq!(x.download()?, [1004, 1007, 1010]);
        Ok(())
    });
}

#[test]
fn half_floats_work_where_the_device_has_them() {
    on_all(|device| {
        let kernel = device.kernel(
            "enable f16;
            @group(0) @binding(0) var<storage, read_write> x: array<f16>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0h; }",
        );
        let has = device.wgpu().is_none_or(|(wgpu, _)| wgpu.features().contains(wgpu::Features::SHADER_F16));
        if !has {
            assert!(kernel.is_err());
            return Ok(());
        }
        let x = device.upload(&[half::f16::from_f32(1.5), half::f16::from_f32(-3.0)])?;
        let batch = device.batch();
        batch.dispatch(&kernel?, &[&x], Grid::groups(2));
        batch.submit()?;
        assert_eq!(x.download()?.iter().map(|half| half.to_f32()).collect::<Vec<_>>(), [3.0, -6.0]);
        Ok(())
    });
}
