//! Batches that come again with the same buffers: submitted as the device's own recording of them, with the same bits.

use sortie::{Buffer, Device, Grid, Kernel, metrics::Metrics};

use crate::{ADD, drivers};

/// Drivers that keep recordings, with the feature on and off.
pub(crate) fn pairs() -> Vec<(&'static str, Device, Device)> {
    let there = ["llvmpipe", "swiftshader"].into_iter().filter(|driver| drivers::open(driver).is_some());
    let open = |driver: &str, on| {
        let options = drivers::uncut().with_device(driver).with_auto_replay(on);
        Device::open_with(options).unwrap_or_else(|error| panic!("{driver}: {error}"))
    };
    let all = there.map(|driver| (driver, open(driver, true), open(driver, false)));
    all.filter(|(_, device, _)| device.info().backend == "vulkan").collect()
}

/// Runs until batches have been resubmitted this often. Recording happens in the background, so it may take some runs.
pub(crate) fn until_resubmitted(device: &Device, times: u64, run: impl FnMut(u32)) -> Metrics {
    until(device, |done| done.batches_resubmitted >= times, run)
}

/// Runs until what has been done since the call is enough.
fn until(device: &Device, enough: impl Fn(&Metrics) -> bool, mut run: impl FnMut(u32)) -> Metrics {
    let before = device.metrics();
    for step in 0.. {
        run(step);
        let done = device.metrics() - before;
        if enough(&done) {
            return done;
        }
        assert_eq!(done.resubmit_misses_unsupported, 0, "it can be recorded");
        std::thread::yield_now();
    }
    unreachable!("it ends above")
}

fn add(device: &Device) -> Kernel {
    device.kernel(ADD).expect("a kernel")
}

fn numbers(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| at * 31 + seed * 1001).collect()
}

#[test]
fn a_loop_that_records_again_is_resubmitted_with_new_data_and_new_readings() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let (x, y) = (device.zeros::<u32>(300).expect("memory"), device.zeros::<u32>(300).expect("memory"));
        let mut expected = vec![0_u32; 300];
        let done = until_resubmitted(&device, 20, |step| {
            let data = numbers(step, 300);
            let batch = device.batch();
            batch.write(&x, &data);
            for _ in 0..10 {
                batch.dispatch(&add, &[&x, &y], Grid::items(300)).immediates(&[1_u32, 2]);
            }
            let scratch = batch.scratch::<u32>(300);
            batch.dispatch(&add, &[&y, &scratch], Grid::items(300)).immediates(&[3_u32, 1]);
            batch.write(scratch.slice(..10), &[step; 10]);
            let (whole, part) = (batch.read(scratch), batch.read(y.slice(7..20)));
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            for (to, from) in expected.iter_mut().zip(&data) {
                *to = to.wrapping_add(10_u32.wrapping_mul(from.wrapping_mul(2).wrapping_add(1)));
            }
            let mut left: Vec<u32> = expected.iter().map(|at| at.wrapping_add(3)).collect();
            left[..10].fill(step);
            assert_eq!(whole.wait().expect("it ran"), left, "{driver}, run {step}");
            assert_eq!(part.wait().expect("it ran"), expected[7..20], "{driver}, run {step}");
        });
        assert_eq!((done.batches_recorded, done.resubmit_misses_immediates), (1, 0), "{driver}");
        assert_eq!(done.native_runs, 0, "{driver}: those are of replays");
        assert_eq!(y.download().expect("it ran"), expected, "{driver}");
    }
}

#[test]
fn immediates_that_differ_from_run_to_run_are_those_of_the_run() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let (x, y) = (device.upload(&[1_u32; 100]).expect("memory"), device.zeros::<u32>(100).expect("memory"));
        let mut expected = 0_u32;
        until_resubmitted(&device, 20, |step| {
            let step = step % 1000;
            let batch = device.batch();
            for at in 0..5 {
                batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[step * 7, at]);
            }
            batch.fill(y.slice(50..), step);
            let sum = batch.read(&y);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            expected = expected.wrapping_add(5 * 7 * step + 10);
            let mut left = vec![expected; 100];
            left[50..].fill(step);
            assert_eq!(sum.wait().expect("it ran"), left, "{driver}, run {step}");
        });
    }
}

#[test]
fn immediates_that_differ_after_it_was_recorded_are_those_of_the_run() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let (x, y) = (device.upload(&[1_u32; 100]).expect("memory"), device.zeros::<u32>(100).expect("memory"));
        let mut expected = 0_u32;
        let mut run = |by: u32| {
            let batch = device.batch();
            batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[by, 1]);
            let sum = batch.read(&y);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            expected = expected.wrapping_add(by + 1);
            assert_eq!(sum.wait().expect("it ran"), [expected; 100], "{driver}");
        };
        until_resubmitted(&device, 3, |_| run(1));
        // From here on, because the run with other immediates has it recorded in the background.
        let before = device.metrics();
        run(2);
        run(1);
        until_resubmitted(&device, 10, &mut run);
        let recorded = (device.metrics() - before).batches_recorded;
        assert_eq!(recorded, 1, "{driver}: once more, with immediates of each run");
    }
}

#[test]
fn buffers_that_take_turns_have_a_recording_each() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let buffers = [1_u32, 0].map(|value| device.upload(&[value; 100]).expect("memory"));
        let mut expected = [1_u32, 0];
        // One may be recorded long before the other.
        let both = |done: &Metrics| done.batches_recorded >= 2 && done.batches_resubmitted >= 20;
        let done = until(&device, both, |step| {
            let [from, to] = if step % 2 == 0 { [0, 1] } else { [1, 0] };
            let batch = device.batch();
            batch.dispatch(&add, &[&buffers[from], &buffers[to]], Grid::items(100)).immediates(&[0_u32, 1]);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            expected[to] = expected[to].wrapping_add(expected[from]);
        });
        assert_eq!(done.batches_recorded, 2, "{driver}");
        let found = buffers.each_ref().map(|buffer| buffer.download().expect("it ran")[99]);
        assert_eq!(found, expected, "{driver}");
    }
}

#[test]
fn no_recording_keeps_a_buffer_of_the_user_alive() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let run = |x: &Buffer<u32>, y: &Buffer<u32>| {
            let batch = device.batch();
            batch.dispatch(&add, &[x, y], Grid::items(100_000)).immediates(&[0_u32, 1]);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
        };
        let (x, y) = (device.upload(&[1_u32; 100_000]).expect("memory"), device.zeros::<u32>(100_000).expect("memory"));
        until_resubmitted(&device, 3, |_| run(&x, &y));
        let live = device.metrics().pool_bytes_live;
        drop((x, y));
        assert!(device.metrics().pool_bytes_live + 800_000 <= live, "{driver}: they went back to the pool");
        // What comes next gets the same memory, and what it holds.
        let (x, y) = (device.upload(&[5_u32; 100_000]).expect("memory"), device.zeros::<u32>(100_000).expect("memory"));
        run(&x, &y);
        assert_eq!(y.download().expect("it ran"), [5; 100_000], "{driver}");
    }
}

#[test]
fn thousands_of_batches_make_nothing() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let (x, y) = (device.upload(&[1_u32; 100]).expect("memory"), device.zeros::<u32>(100).expect("memory"));
        let mut run = |step: u32| {
            let batch = device.batch();
            batch.write(x.slice(..1), &[step]);
            for _ in 0..3 {
                batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[step, 1]);
            }
            let reading = batch.read(&y);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            assert_eq!(reading.wait().map(|data| data.len()).ok(), Some(100), "{driver}");
        };
        until_resubmitted(&device, 3, &mut run);
        let before = device.metrics();
        (0..10_000).for_each(run);
        let done = device.metrics() - before;
        assert_eq!((done.batches_resubmitted, done.submissions), (10_000, 10_000), "{driver}");
        assert_eq!((done.buffers_created, done.bind_groups_created, done.pipelines_created), (0, 0, 0), "{driver}");
        assert_eq!((done.passes, done.plans_made, done.buffers_recycled), (0, 0, 0), "{driver}");
        assert_eq!(done.recorded_bytes, before.recorded_bytes, "{driver}");
    }
}

#[test]
fn a_device_that_is_trimmed_keeps_no_recording() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let y = device.zeros::<u32>(100).expect("memory");
        let run = |_| {
            let batch = device.batch();
            let scratch = batch.scratch::<u32>(100);
            batch.dispatch(&add, &[&scratch, &y], Grid::items(100)).immediates(&[1_u32, 1]);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
        };
        until_resubmitted(&device, 3, run);
        assert!(device.metrics().recorded_bytes > 0, "{driver}");
        device.trim();
        assert_eq!(device.metrics().recorded_bytes, 0, "{driver}");
        until_resubmitted(&device, 3, run);
    }
}

#[test]
fn a_profiled_batch_is_encoded_and_says_so() {
    for (driver, device, _) in pairs() {
        let add = add(&device);
        let (x, y) = (device.upload(&[1_u32; 100]).expect("memory"), device.zeros::<u32>(100).expect("memory"));
        let run = |profiled: bool| {
            let batch = device.batch();
            let profile = profiled.then(|| batch.profile());
            batch.dispatch(&add, &[&x, &y], Grid::items(100)).immediates(&[0_u32, 1]);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            profile.map(|profile| profile.wait().expect("a profile"))
        };
        until_resubmitted(&device, 3, |_| _ = run(false));
        let before = device.metrics();
        let profile = run(true).expect("it was asked for");
        let done = device.metrics() - before;
        assert_eq!((done.batches_resubmitted, done.resubmit_misses_profiled, done.dispatches), (0, 1, 1), "{driver}");
        assert_eq!(profile.ops().len(), 1, "{driver}");
    }
}

#[test]
fn off_means_off() {
    for (driver, _, device) in pairs() {
        let y = device.zeros::<u32>(100).expect("memory");
        for value in 0..100 {
            let batch = device.batch();
            batch.fill(&y, value);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
        }
        let Metrics { batches_recorded, batches_resubmitted, resubmit_misses_buffers, .. } = device.metrics();
        assert_eq!((batches_recorded, batches_resubmitted, resubmit_misses_buffers), (0, 0, 0), "{driver}");
    }
}
