//! Immediates that each run brings, and the check of first runs.

use sortie::{Device, DeviceOptions, ErrorKind, Grid};

use crate::{ADD, devices, drivers, native::native_runs};

#[test]
fn immediates_in_memory_are_those_of_the_run() {
    for (name, device) in devices() {
        let run = || -> sortie::Result<()> {
            let add = device.kernel(ADD)?;
            let bound = device.bind_immediates(&add)?;
            assert_eq!((bound.num_bindings(), bound.immediate_bytes()), (add.num_bindings() + 1, 0), "{name}");
            let (x, y) = (device.upload(&[7_u32; 100])?, device.zeros::<u32>(100)?);
            let batch = device.batch();
            let (params_input, params) = batch.input::<u32>([2]);
            batch.dispatch(&bound, &[&x, &y, &params], Grid::items(100));
            // Beside the kernel as it was.
            batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[1_u32, 0]);
            let replay = batch.freeze()?;
            for (by, times) in [(5_u32, 1_u32), (0, 3), (100, 0)] {
                let mut run = replay.run();
                run.write(params_input, &[by, times]);
                drop(run.submit_async()?);
            }
            assert_eq!(y.download()?, [105 + 7 * 4 + 3; 100], "{name}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_kernel_without_immediates_or_of_another_device_is_refused() -> sortie::Result<()> {
    let (one, other) = (Device::cpu()?, Device::cpu()?);
    let plain = one.kernel("@compute @workgroup_size(1) fn main() {}")?;
    for error in [one.bind_immediates(&plain), other.bind_immediates(&one.kernel(ADD)?)] {
        let error = error.expect_err("there is nothing to bind");
        assert_eq!(
            (error.kind(), error.location().map(std::panic::Location::file)),
            (ErrorKind::Bindings, Some(file!()))
        );
    }
    Ok(())
}

/// All devices there are, with the check on.
fn checked() -> Vec<(&'static str, Device)> {
    let there = ["llvmpipe", "swiftshader"].into_iter().filter(|driver| drivers::open(driver).is_some());
    let open = |name: &'static str| {
        let options = DeviceOptions::default().with_device(name).with_check_replays(true);
        (name, Device::open_with(options).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    ["cpu"].into_iter().chain(there).map(open).collect()
}

#[test]
fn the_check_of_a_first_run_has_no_side_effect() {
    for (name, device) in checked() {
        let run = || -> sortie::Result<()> {
            let add = device.kernel(ADD)?;
            let (x, y) = (device.upload(&[7_u32; 100])?, device.upload(&[1_u32; 100])?);
            let batch = device.batch();
            let (frame_input, frame) = batch.input::<u32>([100]);
            batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[1_u32, 2]);
            batch.dispatch(&add, &[&frame, &y], Grid::items(100)).immediates(&[0_u32, 1]);
            let out = batch.output(&y);
            let replay = batch.freeze()?;
            for round in 0..3_u32 {
                let mut run = replay.run();
                run.write(frame_input, &[round; 100]);
                let result = run.read(out);
                match round % 2 {
                    0 => run.submit()?,
                    _ => run.submit_async()?.wait()?,
                }
                let expected = 1 + (round + 1) * 15 + (0..=round).sum::<u32>();
                assert_eq!(result.wait()?, [expected; 100], "{name}, run {round}");
            }
            // Three runs, and one rehearsed.
            assert_eq!(device.metrics().native_runs, native_runs(&device, 3), "{name}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_first_run_that_differs_is_found_out() {
    for (name, device) in checked() {
        let Some((wgpu, _)) = device.wgpu() else { continue };
        // It cannot be read and restored, so it is one further when the run comes.
        let hidden = wgpu.create_buffer(&sortie::wgpu::BufferDescriptor {
            label: None,
            size: 400,
            usage: sortie::wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let run = || -> sortie::Result<_> {
            let add = device.kernel(ADD)?;
            let hidden = device.import::<u32>(hidden)?;
            let (ones, y) = (device.upload(&[1_u32; 100])?, device.zeros::<u32>(100)?);
            let batch = device.batch();
            batch.dispatch(&add, &[&ones, &hidden], Grid::items(100)).immediates(&[0_u32, 1]);
            batch.dispatch(&add, &[&hidden, &y], Grid::items(100)).immediates(&[0_u32, 1]);
            let replay = batch.freeze()?;
            let error = replay.run().submit().expect_err("2 is not 1");
            assert!(error.to_string().contains("left 0x00000002 at byte 0"), "{name}: {error}");
            // Only the first is compared.
            replay.run().submit()
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
