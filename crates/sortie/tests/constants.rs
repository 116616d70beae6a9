//! Numbers and data given while recording a frozen batch.

use sortie::{Device, DeviceOptions, half::f16};

fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu().expect("the CPU device opens")];
    for name in ["llvmpipe", "swiftshader"] {
        devices.extend(Device::open_with(DeviceOptions::default().with_device(name)));
    }
    devices
}

#[test]
fn numbers_and_data_of_a_frozen_batch_do_not_keep_its_runs_from_being_native() {
    let table: Vec<f32> = (0..1000).map(|at| at as f32).collect();
    for device in devices() {
        let batch = device.batch();
        let (input, x) = batch.input::<f32>([1000]);
        let halves = (x * 0.5).cast::<f16>() + 1.0;
        let counts = x.cast::<u32>() * 2 + 1;
        let signed = 3 - x.cast::<i32>() * -1;
        let limited = x.clamp(10.0, 500.0).minimum(400.0).maximum(20.0).pow(2.0);
        let chosen = x.greater(7.0).select(1.0 / (x + 1.0), 0.0);
        let y = batch.tensor_from(&table, [1000]) * x + limited + chosen;
        let outputs = (y.output(), halves.output(), counts.output(), signed.output());
        let replay = batch.freeze().expect("it freezes");
        let before = device.metrics();
        for run in 0..100 {
            let mut step = replay.run();
            let value = run as f32;
            step.write(input, &[value; 1000]);
            let y = step.read(outputs.0);
            let (halves, counts, signed) = (step.read(outputs.1), step.read(outputs.2), step.read(outputs.3));
            step.submit().expect("it runs");
            let limited = value.clamp(10.0, 500.0).clamp(20.0, 400.0).powi(2);
            let chosen = if value > 7.0 { 1.0 / (value + 1.0) } else { 0.0 };
            for (at, y) in y.wait().expect("y").into_iter().enumerate() {
                let expected = at as f32 * value + limited + chosen;
                assert!(
                    (y - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                    "{y} is not {expected} on {}",
                    device.info()
                );
            }
            assert_eq!(halves.wait().expect("halves")[0], f16::from_f32(value * 0.5 + 1.0));
            assert_eq!(counts.wait().expect("counts")[0], run * 2 + 1);
            assert_eq!(signed.wait().expect("signed")[0], 3 + run.cast_signed());
        }
        let spent = device.metrics() - before;
        if device.info().backend == "vulkan" {
            assert_eq!(spent.native_runs, 100, "on {}", device.info());
        }
    }
}

#[test]
fn data_that_the_batch_overwrites_is_written_in_every_run() {
    for device in devices() {
        let batch = device.batch();
        let count = batch.scratch::<u32>(4);
        batch.write(count, &[1, 2, 3, 4]);
        let first = batch.output(count);
        batch.fill(count.slice(1..2), 9);
        let last = batch.output(count);
        let replay = batch.freeze().expect("it freezes");
        for _ in 0..3 {
            let mut run = replay.run();
            let (first, last) = (run.read(first), run.read(last));
            run.submit().expect("it runs");
            assert_eq!(first.wait().expect("first"), [1, 2, 3, 4]);
            assert_eq!(last.wait().expect("last"), [1, 9, 3, 4]);
        }
    }
}
