//! Native replays on Vulkan: the same bits as when every run is encoded.

use sortie::{Device, Grid, Replay};

use crate::{ADD, devices, drivers};

/// A driver three times: with native replays, with native replays on a queue that others may use too, and without.
fn triples() -> Vec<(&'static str, [Device; 3])> {
    let there = ["llvmpipe", "swiftshader"].into_iter().filter(|driver| drivers::open(driver).is_some());
    let open = |driver: &str, native_replay| {
        let options = drivers::uncut().with_device(driver).with_native_replay(native_replay);
        Device::open_with(options).unwrap_or_else(|error| panic!("{driver}: {error}"))
    };
    let all = |driver: &'static str| {
        let shared = open(driver, true);
        assert!(shared.wgpu().is_some(), "from now on it is");
        (driver, [open(driver, true), shared, open(driver, false)])
    };
    there.map(all).collect()
}

/// How many of some runs are native: all on Vulkan, and none elsewhere.
pub(super) fn native_runs(device: &Device, runs: u64) -> u64 {
    if device.info().backend == "vulkan" { runs } else { 0 }
}

/// The same bits after several runs, one of them native and the other not.
fn same(what: &str, record: impl Fn(&Device) -> (Replay, sortie::Buffer<u32>)) {
    for (driver, devices) in triples() {
        let expected = native_runs(&devices[0], 3);
        let results = devices.map(|device| {
            let (replay, result) = record(&device);
            for _ in 0..3 {
                replay.run().submit().unwrap_or_else(|error| panic!("{what} on {driver}: {error}"));
            }
            (
                result.download().unwrap_or_else(|error| panic!("{what} on {driver}: {error}")),
                device.metrics().native_runs,
            )
        });
        let [(native, runs), (shared, as_many), (encoded, none)] = results;
        assert_eq!((runs, as_many, none), (expected, expected, 0), "{what} on {driver}");
        assert_eq!(native, encoded, "{what} on {driver}");
        assert_eq!(shared, encoded, "{what} on {driver}, on a queue that others may use");
        assert!(native.iter().any(|x| *x != 0), "{what} on {driver}: something happened");
    }
}

#[test]
fn memory_that_wgpu_has_never_seen_written_is_not_zeroed_later() {
    same("a fresh output", |device| {
        let add = device.kernel(ADD).expect("a kernel");
        let (x, y) = (device.upload(&[7_u32; 1000]).expect("memory"), device.zeros::<u32>(1000).expect("memory"));
        let batch = device.batch();
        batch.dispatch(&add, &[&x, &y], Grid::items(1000)).immediates(&[1_u32, 2]);
        (batch.freeze().expect("a replay"), y)
    });
}

#[test]
fn accesses_out_of_bounds_do_the_same() {
    const OUT: &str = "
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        var<workgroup> shared_words: array<u32, 4>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
            let unset = shared_words[l % 4u];
            workgroupBarrier();
            var local = array(1u, 2u, 3u);
            y[id.x] = x[id.x * 3u] + local[id.x % 5u] + unset + id.x / (id.x % 2u);
            y[id.x + 100000u] = 9u;
        }";
    same("out of bounds", |device| {
        let kernel = device.kernel(OUT).expect("a kernel");
        let x = device.upload(&(1..=300).collect::<Vec<u32>>()).expect("memory");
        let y = device.zeros::<u32>(256).expect("memory");
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(256));
        (batch.freeze().expect("a replay"), y)
    });
}

#[test]
fn every_kind_of_op_is_the_same() {
    const UNIFORM: &str = "
        struct Params { by: vec4<u32> }
        @group(0) @binding(0) var<uniform> p: Params;
        @group(2) @binding(3) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = y[id.x] * p.by.x + p.by.y; }
        }";
    same("all ops", |device| {
        let (add, uniform) = (device.kernel(ADD).expect("a kernel"), device.kernel(UNIFORM).expect("a kernel"));
        let y = device.zeros::<u32>(70_000 * 64).expect("memory");
        let params = device.upload(&[3_u32, 5, 0, 0]).expect("memory");
        let batch = device.batch();
        let (one, other) = (batch.scratch::<u32>(70_000 * 64), batch.scratch::<u32>(5000));
        batch.fill(one, 3);
        batch.fill(other, 0);
        // A grid that is folded, and has immediates.
        batch.dispatch(&add, &[&one, &y], Grid::items(70_000 * 64)).immediates(&[1_u32, 2]);
        batch.dispatch(&add, &[&one, &other], Grid::items(5000)).immediates(&[4_u32, 1]);
        batch.barrier();
        batch.dispatch(&uniform, &[&params, &other], Grid::items(5000));
        batch.copy(other, y.slice(128..5128));
        let third = batch.scratch::<u32>(6000);
        batch.dispatch(&add, &[&other, &third], Grid::items(5000)).immediates(&[0_u32, 1]);
        batch.copy(third, y.slice(8192..14_192));
        (batch.freeze().expect("a replay"), y)
    });
}

#[test]
fn a_buffer_that_is_read_and_written_in_parts_is_the_same() {
    same("parts of a buffer", |device| {
        let add = device.kernel(ADD).expect("a kernel");
        let x = device.upload(&(1..=2048).collect::<Vec<u32>>()).expect("memory");
        let (front, back) = (x.slice(..1024), x.slice(1024..));
        let batch = device.batch();
        batch.dispatch(&add, &[&front, &back], Grid::items(1000)).immediates(&[1_u32, 2]);
        batch.dispatch(&add, &[&back, &front], Grid::items(1000)).immediates(&[3_u32, 1]);
        (batch.freeze().expect("a replay"), x)
    });
}

#[test]
fn bindings_that_are_declared_read_write_and_only_read_are_the_same() {
    let generated = ADD.replace("storage, read>", "storage, read_write>");
    same("declared read_write", |device| {
        let add = device.kernel(&generated).expect("a kernel");
        let x = device.upload(&(1..=1024).collect::<Vec<u32>>()).expect("memory");
        let y = device.zeros::<u32>(2048).expect("memory");
        let batch = device.batch();
        batch.dispatch(&add, &[&x, &y.slice(..1024)], Grid::items(1000)).immediates(&[1_u32, 2]);
        batch.dispatch(&add, &[&x, &y.slice(1024..)], Grid::items(1000)).immediates(&[3_u32, 1]);
        (batch.freeze().expect("a replay"), y)
    });
}

#[test]
fn thousands_of_native_runs_make_nothing() {
    for (driver, [device, ..]) in triples() {
        if native_runs(&device, 1) == 0 {
            // Encoded ones are counted elsewhere.
            continue;
        }
        let add = device.kernel(ADD).expect("a kernel");
        let batch = device.batch();
        let (x_input, x) = batch.input::<u32>([64]);
        let y = batch.scratch::<u32>(64);
        for by in 0..20_u32 {
            batch.dispatch(&add, &[&x, &y], Grid::items(64)).immediates(&[by, 1]);
        }
        let out = batch.output(y);
        let replay = batch.freeze().expect("a replay");
        let fly = || {
            let mut run = replay.run();
            run.write(x_input, &[2; 64]);
            let reading = run.read(out);
            run.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            assert_eq!(reading.wait().expect("data"), [20 * 2 + 190; 64], "{driver}");
        };
        (0..5).for_each(|_| fly());
        let before = device.metrics();
        (0..500).for_each(|_| fly());
        let made = device.metrics() - before;
        assert_eq!(
            [made.buffers_created, made.bind_groups_created, made.pipelines_created, made.passes],
            [0; 4],
            "{driver}"
        );
        assert_eq!([made.native_runs, made.submissions, made.dispatches], [500, 500, 10_000], "{driver}");
    }
}

/// Steps of a simulation, which bring nothing and ask for nothing, among all else that goes to a queue.
#[test]
fn runs_without_data_keep_their_place_among_writes_batches_and_other_runs() {
    for (driver, devices) in triples() {
        for device in devices {
            let run = || -> sortie::Result<()> {
                let add = device.kernel(ADD)?;
                let (x, y) = (device.upload(&[1_u32; 1000])?, device.zeros::<u32>(1000)?);
                let step = |times: u32| {
                    let batch = device.batch();
                    batch.dispatch(&add, &[&x, &y], Grid::items(1000)).immediates(&[0_u32, times]);
                    batch.freeze()
                };
                let (once, thrice) = (step(1)?, step(3)?);
                let mut expected = 0;
                for round in 1..30_u32 {
                    x.write(&vec![round; 1000])?;
                    drop(once.run().submit_async()?);
                    x.write(&vec![2 * round; 1000])?;
                    for _ in 0..3 {
                        drop(thrice.run().submit_async()?);
                    }
                    let batch = device.batch();
                    batch.fill(&x, 7);
                    drop(batch.submit_async()?);
                    once.run().submit()?;
                    let batch = device.batch();
                    let read = batch.read(&y);
                    batch.submit()?;
                    expected += round + 3 * 3 * 2 * round + 7;
                    assert_eq!(read.wait()?, vec![expected; 1000], "{driver}, round {round}");
                }
                Ok(())
            };
            run().unwrap_or_else(|error| panic!("{driver}: {error}"));
        }
    }
}

#[test]
fn many_threads_may_run_steps_and_drop_the_replay_while_they_are_under_way() {
    for (driver, [device, ..]) in triples() {
        let run = || -> sortie::Result<()> {
            let add = device.kernel(ADD)?;
            let (ones, y) = (device.upload(&[1_u32; 100])?, device.zeros::<u32>(100)?);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (device, add, ones, y) = (&device, &add, &ones, &y);
                    scope.spawn(move || -> sortie::Result<()> {
                        let batch = device.batch();
                        batch.dispatch(add, &[ones, y], Grid::items(100)).immediates(&[0_u32, 1]);
                        let step = batch.freeze()?;
                        for round in 0..50 {
                            match (round + thread) % 3 {
                                0 => step.run().submit()?,
                                _ => drop(step.run().submit_async()?),
                            }
                        }
                        Ok(())
                    });
                }
            });
            assert_eq!(y.download()?, [200; 100], "{driver}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{driver}: {error}"));
    }
}

/// Two writes of the same memory without a barrier, given to Vulkan behind wgpu's back. Does nothing unless asked to: `scripts/test` has it done, to see
/// that the validation layer, which is silent about native replays, is not silent about this.
#[test]
#[expect(unsafe_code, reason = "a mistake that only Vulkan lets one make")]
fn plants_a_hazard() {
    type Api = sortie::wgpu::hal::api::Vulkan;
    if std::env::var_os("SORTIE_TEST_HAZARD").is_none() {
        return;
    }
    let Some((_, [device, ..])) = triples().into_iter().next() else { return };
    let (gpu, queue) = device.wgpu().expect("a wgpu device");
    let raw = gpu.create_buffer(&sortie::wgpu::BufferDescriptor {
        label: None,
        size: 1024,
        usage: sortie::wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = gpu.create_command_encoder(&sortie::wgpu::CommandEncoderDescriptor::default());
    // SAFETY: the handles live until the queue is idle; that the two commands race is the point, and zeros are written either way.
    unsafe {
        let handle = raw.as_hal::<Api>().expect("Vulkan").raw_handle();
        let vulkan = gpu.as_hal::<Api>().expect("Vulkan").raw_device().clone();
        encoder.as_hal_mut::<Api, _, _>(|encoder| {
            let commands = encoder.expect("Vulkan").raw_handle();
            vulkan.cmd_fill_buffer(commands, handle, 0, 1024, 0);
            vulkan.cmd_fill_buffer(commands, handle, 0, 1024, 0);
        });
    }
    queue.submit([encoder.finish()]);
    gpu.poll(sortie::wgpu::PollType::wait_indefinitely()).expect("it ends");
}

#[test]
fn an_entry_point_beside_others_that_the_device_cannot_run_replays() {
    let source = include_str!("../corpus/kernels/reach.wgsl");
    for (name, device) in devices() {
        let run = || -> sortie::Result<()> {
            let kernel = device.module(source)?.kernel("reached_through_calls")?;
            let by = device.upload(&[0_u32, 7, 0, 3])?;
            let o = device.zeros::<u32>(100)?;
            let batch = device.batch();
            batch.dispatch(&kernel, &[&o, &by], Grid::items(100));
            let replay = batch.freeze()?;
            let before = device.metrics().native_runs;
            for _ in 0..2 {
                o.write(&[0; 100])?;
                replay.run().submit()?;
                assert_eq!(o.download()?, (0..100).map(|x| (x * 7 + 3) * 7 + 3).collect::<Vec<u32>>(), "{name}");
            }
            assert_eq!(device.metrics().native_runs - before, native_runs(&device, 2), "{name}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
