//! Replays: the same as live batches, on every device there is.

#[path = "../drivers/mod.rs"]
mod drivers;

mod count;
mod immediates;
mod indirect;
mod mistakes;
mod native;
mod random;
mod rerecord;
mod resubmit;
mod resubmit_random;

use sortie::{Device, Grid};

/// Every device that runs something.
fn devices() -> Vec<(&'static str, Device)> {
    let mut all: Vec<(&str, Device)> = drivers::cpu().map(|device| ("cpu", device)).into_iter().collect();
    for driver in ["llvmpipe", "swiftshader"] {
        all.extend(drivers::open(driver).map(|device| (driver, device)));
    }
    all
}

const ADD: &str = "
    struct Params { by: u32, times: u32 }
    var<immediate> p: Params;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] += x[id.x] * p.times + p.by; }
    }";

#[test]
fn runs_queue_up_and_each_has_its_own_data() {
    for (name, device) in devices() {
        let batch = device.batch();
        let (x_input, x) = batch.input::<f32>([3, 4]);
        let (y_input, y) = batch.input::<f32>([4]);
        let sum = x + y;
        let sum = sum * 2.0;
        let total = sum.sum(&[0, 1]);
        let (sum, total) = (batch.output(sum), batch.output(total));
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut readings = Vec::new();
        for step in 0..40_u8 {
            let mut run = replay.run();
            let data: Vec<f32> = (0..12_u8).map(|at| f32::from(at) + f32::from(step)).collect();
            run.write(x_input, &data);
            run.write(y_input, &[f32::from(step); 4]);
            let sum = if step % 3 == 0 { Some(run.read(sum)) } else { None };
            readings.push((step, sum, run.read(total)));
            drop(run.submit_async().unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        for (step, sum, total) in readings {
            let expected: Vec<f32> = (0..12_u8).map(|at| 2.0 * (f32::from(at) + 2.0 * f32::from(step))).collect();
            assert_eq!(total.wait().expect("a total"), [expected.iter().sum::<f32>()], "{name}, step {step}");
            if let Some(sum) = sum {
                assert_eq!(sum.wait().expect("a sum"), expected, "{name}, step {step}");
            }
        }
    }
}

#[test]
fn state_stays_on_the_device_and_scratch_starts_at_zero() {
    for (name, device) in devices() {
        let add = device.kernel(ADD).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (one, other) = (device.upload(&[1_u32; 100]).expect("memory"), device.zeros::<u32>(100).expect("memory"));
        let batch = device.batch();
        let fresh = batch.scratch::<u32>(100);
        // Adds to what a run before this one would have left there.
        batch.dispatch(&add, &[&one, &fresh], Grid::items(100)).immediates(&[0_u32, 1]);
        batch.dispatch(&add, &[&fresh, &other], Grid::items(100)).immediates(&[1_u32, 2]);
        batch.split();
        batch.copy(&other, &one);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut a, mut b) = (1_u32, 0_u32);
        for step in 0..8 {
            replay.run().submit().unwrap_or_else(|error| panic!("{name}, step {step}: {error}"));
            b += 2 * a + 1;
            a = b;
        }
        assert_eq!(one.download().expect("data"), [a; 100], "{name}");
    }
}

#[test]
fn replays_and_live_batches_take_turns() {
    for (name, device) in devices() {
        let add = device.kernel(ADD).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (x, y) = (device.upload(&[1_u32; 64]).expect("memory"), device.zeros::<u32>(64).expect("memory"));
        let freeze = |by: u32| {
            let batch = device.batch();
            batch.dispatch(&add, &[&x, &y], Grid::items(64)).immediates(&[by, 1]);
            batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let (small, large) = (freeze(1), freeze(1000));
        for _ in 0..20 {
            drop(small.run().submit_async().expect("it flies"));
            let batch = device.batch();
            batch.dispatch(&add, &[&y, &x], Grid::items(64)).immediates(&[0_u32, 0]);
            drop(batch.submit_async().expect("it flies"));
            drop(large.run().submit_async().expect("it flies"));
        }
        // Both are gone before what they fly has landed.
        drop((small, large, add));
        assert_eq!(y.download().expect("data"), [20 * 1003; 64], "{name}");
    }
}

#[test]
fn threads_share_a_replay() {
    for (name, device) in devices() {
        let batch = device.batch();
        let (x_input, x) = batch.input::<u32>([1000]);
        let y = x * x;
        let y = batch.output(y);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let replay = replay.clone();
                scope.spawn(move || {
                    for step in 0..25 {
                        let data: Vec<u32> = (0..1000).map(|at| at * 7 + thread * 100 + step).collect();
                        let mut run = replay.run();
                        run.write(x_input, &data);
                        let reading = run.read(y);
                        run.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
                        let expected: Vec<u32> = data.iter().map(|x| x * x).collect();
                        assert_eq!(reading.wait().expect("data"), expected, "{name}");
                    }
                });
            }
        });
    }
}

#[test]
fn grids_are_folded_and_indirect_in_replays_too() {
    for (name, device) in devices() {
        let add = device.kernel(ADD).unwrap_or_else(|error| panic!("{name}: {error}"));
        let len = 70_000 * 64;
        let (x, y) = (device.upload(&vec![1_u32; len]).expect("memory"), device.zeros::<u32>(len).expect("memory"));
        let counts = device.upload(&[2_u32, 1, 1]).expect("memory");
        let small = device.zeros::<u32>(256).expect("memory");
        let batch = device.batch();
        batch.dispatch(&add, &[&x, &y], Grid::items(len)).immediates(&[0_u32, 3]);
        batch
            .dispatch(
                &add,
                &[x.slice(..256), small.slice(..)].each_ref().map(|slice| slice as _),
                Grid::indirect(&counts),
            )
            .immediates(&[0_u32, 1]);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        replay.run().submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        counts.write(&[4, 1, 1]).expect("a write");
        replay.run().submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(y.download().expect("data").iter().all(|y| *y == 6), "{name}");
        let found = small.download().expect("data");
        assert_eq!((found[0], found[127], found[128], found[255]), (2, 2, 1, 1), "{name}");
    }
}

/// The owner of an imported buffer may destroy it between two runs: the run then fails, and nothing else.
#[test]
fn an_imported_buffer_that_is_destroyed_fails_the_run() {
    for (name, device) in devices() {
        let Some((raw, _)) = device.wgpu() else { continue };
        let usage = sortie::wgpu::BufferUsages::STORAGE
            | sortie::wgpu::BufferUsages::COPY_DST
            | sortie::wgpu::BufferUsages::COPY_SRC;
        let descriptor = sortie::wgpu::BufferDescriptor { label: None, size: 256, usage, mapped_at_creation: false };
        let theirs = raw.create_buffer(&descriptor);
        let buffer = device.import::<u32>(theirs.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let add = device.kernel(ADD).unwrap_or_else(|error| panic!("{name}: {error}"));
        let batch = device.batch();
        let (x_input, x) = batch.input::<u32>([64]);
        batch.dispatch(&add, &[&x, &buffer], Grid::items(64)).immediates(&[1_u32, 1]);
        let out = batch.output(&buffer);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let fly = || {
            let mut run = replay.run();
            run.write(x_input, &[5; 64]);
            let reading = run.read(out);
            run.submit()?;
            reading.wait()
        };
        assert_eq!(fly().expect("a run"), [6; 64], "{name}");
        theirs.destroy();
        let error = fly().expect_err("it is gone");
        assert_eq!(error.kind(), sortie::ErrorKind::Bindings, "{name}: {error}");
        // The device goes on.
        assert_eq!(device.upload(&[1_u32]).and_then(|buffer| buffer.download()).expect("data"), [1], "{name}");
    }
}

/// wgpu finds out at once that a buffer is another device's, and when it is used that it has been destroyed; Vulkan would crash.
#[test]
fn freezing_with_a_destroyed_or_foreign_buffer_is_an_error() {
    use sortie::wgpu::BufferUsages;
    for driver in ["llvmpipe", "swiftshader"] {
        let (Some(device), Some(other)) = (drivers::open(driver), drivers::open(driver)) else { continue };
        let add = device.kernel(ADD).unwrap_or_else(|error| panic!("{driver}: {error}"));
        // Devices of GL have instances of their own, and wgpu panics over a handle of another instance.
        let kinds = if device.info().backend == "gl" { 4 } else { 8 };
        for what in 0..kinds {
            let owner = if what < 4 { &device } else { &other };
            let (raw, _) = owner.wgpu().expect("a wgpu device");
            let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
            let descriptor =
                sortie::wgpu::BufferDescriptor { label: None, size: 256, usage, mapped_at_creation: false };
            let theirs = raw.create_buffer(&descriptor);
            let Ok(buffer) = device.import::<u32>(theirs.clone()) else { continue };
            let y = device.upload(&[7_u32; 64]).expect("memory");
            if what < 4 {
                theirs.destroy();
            }
            let batch = device.batch();
            match what % 4 {
                0 => batch.copy(&buffer, &y),
                1 => batch.fill(&buffer, 0),
                2 => batch.fill(&buffer, 1),
                _ => drop(batch.dispatch(&add, &[&y, &buffer], Grid::items(64)).immediates(&[1_u32, 1])),
            }
            let error = batch.freeze().and_then(|replay| replay.run().submit()).expect_err("it cannot be used");
            assert_eq!(error.kind(), sortie::ErrorKind::Bindings, "{driver}, {what}: {error}");
        }
    }
}

#[test]
fn an_output_can_be_read_twice_by_one_run() {
    for (name, device) in devices() {
        let batch = device.batch();
        let (x_input, x) = batch.input::<u32>([4]);
        let out = batch.output(x);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut run = replay.run();
        run.write(x_input, &[1, 2, 3, 4]);
        let (one, other) = (run.read(out), run.read(out));
        run.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            (one.wait().expect("data"), other.wait().expect("data")),
            (vec![1, 2, 3, 4], vec![1, 2, 3, 4]),
            "{name}"
        );
    }
}

/// A run that fails leaves nothing behind in an input, even in one that the recording writes: the next run brings it anew.
#[test]
fn a_replay_survives_a_run_that_fails() {
    let options = sortie::DeviceOptions::default().with_device("cpu").with_check_races(true);
    let device = Device::open_with(options).expect("the built-in CPU");
    let kernel = device
        .kernel(
            "@group(0) @binding(0) var<storage, read> x: array<u32>;
             @group(0) @binding(1) var<storage, read_write> z: array<u32>;
             @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) { z[id.x * x[0]] += id.x; }",
        )
        .expect("a kernel");
    let batch = device.batch();
    let ((x_input, x), (z_input, z)) = (batch.input::<u32>([1]), batch.input::<u32>([4]));
    batch.dispatch(&kernel, &[&x, &z], Grid::items(4));
    let out = z.output();
    let replay = batch.freeze().expect("a replay");
    let fly = |step: u32| {
        let mut run = replay.run();
        run.write(x_input, &[step]);
        run.write(z_input, &[10; 4]);
        let reading = run.read(out);
        run.submit()?;
        reading.wait()
    };
    assert_eq!(fly(1).expect("a run"), [10, 11, 12, 13]);
    assert_eq!(fly(0).expect_err("a race").kind(), sortie::ErrorKind::Race);
    assert_eq!(fly(1).expect("another run"), [10, 11, 12, 13]);
}
