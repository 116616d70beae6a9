//! Batches in an application's own command encoder (`Batch::encode`), on lavapipe, SwiftShader and wgpu's noop device.
//!
//! Here the application's device is opened through sortie, and `from_wgpu` makes the guest.

#[path = "drivers/mod.rs"]
mod drivers;

use std::time::Duration;

use sortie::{
    Buffer, Device, DeviceOptions, ErrorKind, Grid, Kernel, Result,
    policy::{Split, SubmitPolicy},
};

const DRIVERS: [&str; 2] = ["llvmpipe", "swiftshader"];
const LEN: usize = 1000;

/// y = 2 x + 1.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";

/// An application with a pass of its own, and sortie as its guest.
struct Application {
    owner: Device,
    guest: Device,
    pipeline: wgpu::ComputePipeline,
    step: Kernel,
    raw: [wgpu::Buffer; 2],
    /// The same buffers.
    shared: [Buffer<u32>; 2],
}

impl Application {
    fn open(driver: &str, policy: Option<SubmitPolicy>) -> Result<Self> {
        let owner = Device::open_with(DeviceOptions::default().with_device(driver))?;
        let (gpu, queue) = owner.wgpu().expect("a wgpu device");
        let mut options = DeviceOptions::default();
        options.policy = policy;
        let guest = Device::from_wgpu_with(gpu.clone(), queue.clone(), options)?;
        let module = gpu.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(STEP.into()),
        });
        let pipeline = gpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffer = |_| {
            gpu.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 4 * LEN as u64,
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            })
        };
        let raw = [0, 1].map(buffer);
        let shared = [guest.import(raw[0].clone())?, guest.import(raw[1].clone())?];
        let step = guest.kernel(STEP)?;
        Ok(Self { guest, pipeline, step, raw, shared, owner })
    }

    fn wgpu(&self) -> (&wgpu::Device, &wgpu::Queue) {
        self.owner.wgpu().expect("a wgpu device")
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.wgpu().0.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// The application's own pass: steps from one buffer to another.
    fn pass(&self, encoder: &mut wgpu::CommandEncoder, from: usize, to: usize) {
        let entry =
            |binding, buffer: usize| wgpu::BindGroupEntry { binding, resource: self.raw[buffer].as_entire_binding() };
        let group = self.wgpu().0.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[entry(0, from), entry(1, to)],
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(LEN.div_ceil(64) as u32, 1, 1);
    }

    fn write(&self, data: &[u32]) {
        self.wgpu().1.write_buffer(&self.raw[0], 0, bytemuck::cast_slice(data));
    }

    fn submit(&self, encoder: wgpu::CommandEncoder) {
        self.wgpu().1.submit([encoder.finish()]);
    }
}

/// The drivers there are, by their index in the list of devices.
fn installed() -> Vec<String> {
    DRIVERS.into_iter().filter_map(drivers::find).map(|index| index.to_string()).collect()
}

/// Runs a test on an application of each driver there is.
fn on_each(test: impl Fn(Application) -> Result<()>) -> Result<()> {
    installed().iter().try_for_each(|driver| test(Application::open(driver, None)?))
}

fn steps(x: u32, count: usize) -> u32 {
    (0..count).fold(x, |x, _| x.wrapping_mul(2).wrapping_add(1))
}

fn input() -> Vec<u32> {
    (0..LEN as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

fn noop() -> Result<Application> {
    Application::open("noop", None)
}

#[test]
fn a_batch_between_the_applications_own_passes_is_in_its_one_submission() -> Result<()> {
    on_each(|app| {
        let data = input();
        app.write(&data);
        let before = app.guest.metrics();
        let mut encoder = app.encoder();
        app.pass(&mut encoder, 0, 1);
        let batch = app.guest.batch();
        let room = batch.scratch::<u32>(LEN);
        batch.dispatch(&app.step, &[&app.shared[1], &room], Grid::items(LEN));
        batch.dispatch(&app.step, &[&room, &app.shared[0]], Grid::items(LEN));
        let reading = batch.read(&app.shared[0]);
        let ticket = batch.encode(&mut encoder)?;
        app.pass(&mut encoder, 0, 1);
        app.submit(encoder);
        ticket.wait()?;
        let after = app.guest.metrics();
        assert_eq!(after.submissions, before.submissions, "only the application submits");
        assert_eq!(after.batches, before.batches + 1);
        assert_eq!(reading.wait()?, data.iter().map(|x| steps(*x, 3)).collect::<Vec<_>>());
        assert_eq!(app.shared[1].download()?, data.iter().map(|x| steps(*x, 4)).collect::<Vec<_>>());
        Ok(())
    })
}

#[test]
fn data_written_filled_and_read_by_many_encoded_batches_is_each_batchs_own() -> Result<()> {
    on_each(|app| {
        let x = app.guest.zeros::<u32>(LEN)?;
        for round in 0..50 {
            let mut encoder = app.encoder();
            let mut waiting = Vec::new();
            for number in 0..3 {
                let value = 10 * round + number;
                let batch = app.guest.batch();
                batch.write(&x, &vec![value; LEN]);
                batch.fill(x.slice(1..2), 7);
                waiting.push((value, batch.read(&x), batch.encode(&mut encoder)?));
            }
            app.submit(encoder);
            for (value, reading, ticket) in waiting {
                ticket.wait()?;
                let mut expected = vec![value; LEN];
                expected[1] = 7;
                assert_eq!(reading.wait()?, expected);
            }
        }
        Ok(())
    })
}

#[test]
fn an_encoded_batch_sees_writes_and_batches_from_before_it() -> Result<()> {
    on_each(|app| {
        let (x, y) = (app.guest.zeros::<u32>(LEN)?, app.guest.zeros::<u32>(LEN)?);
        for round in 0..20 {
            x.write(&[round; LEN])?;
            let earlier = app.guest.batch();
            earlier.dispatch(&app.step, &[&x, &y], Grid::items(LEN));
            earlier.submit_async()?;
            let mut encoder = app.encoder();
            let batch = app.guest.batch();
            batch.dispatch(&app.step, &[&y, &x], Grid::items(LEN));
            let reading = batch.read(&x);
            batch.encode(&mut encoder)?;
            app.submit(encoder);
            assert_eq!(reading.wait()?, [steps(round, 2); LEN]);
        }
        Ok(())
    })
}

#[test]
fn a_batch_submitted_before_the_application_submits_does_not_see_an_encoded_one() -> Result<()> {
    on_each(|app| {
        let x = app.guest.upload(&[5_u32; LEN])?;
        let mut encoder = app.encoder();
        let encoded = app.guest.batch();
        encoded.fill(&x, 9);
        let ticket = encoded.encode(&mut encoder)?;
        let between = app.guest.batch();
        let reading = between.read(&x);
        between.submit()?;
        assert_eq!(reading.wait()?, [5; LEN]);
        app.submit(encoder);
        ticket.wait()?;
        assert_eq!(x.download()?, [9; LEN]);
        Ok(())
    })
}

#[test]
fn an_encoded_batch_is_never_cut() -> Result<()> {
    for driver in installed() {
        let app = Application::open(&driver, Some(SubmitPolicy { split: Split::Every(1), in_flight: 2 }))?;
        app.write(&input());
        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        for _ in 0..5 {
            batch.dispatch(&app.step, &[&app.shared[0], &app.shared[1]], Grid::items(LEN));
            batch.dispatch(&app.step, &[&app.shared[1], &app.shared[0]], Grid::items(LEN));
        }
        batch.split_by(Split::Every(2));
        let ticket = batch.encode(&mut encoder)?;
        app.submit(encoder);
        ticket.wait()?;
        let metrics = app.guest.metrics();
        assert_eq!((metrics.submissions, metrics.cuts), (0, 0));
        assert_eq!(app.shared[0].download()?, input().into_iter().map(|x| steps(x, 10)).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn a_split_in_an_encoded_batch_is_a_mistake_with_its_line() -> Result<()> {
    let app = noop()?;
    let batch = app.guest.batch();
    batch.fill(&app.shared[0], 0);
    let line = line!() + 1;
    batch.split();
    let reading = batch.read(&app.shared[0]);
    let error = batch.encode(&mut app.encoder()).expect_err("a split");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.location().map(|at| (at.file(), at.line())), Some((file!(), line)));
    assert_eq!(reading.wait().expect_err("refused").kind(), ErrorKind::Unsupported);
    Ok(())
}

#[test]
fn a_device_of_our_own_does_not_encode() -> Result<()> {
    let app = noop()?;
    for device in [app.owner.clone(), Device::cpu()?] {
        let x = device.zeros::<u32>(4)?;
        let batch = device.batch();
        batch.fill(&x, 1);
        let reading = batch.read(&x);
        let error = batch.encode(&mut app.encoder()).expect_err("not a guest");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.location().map(std::panic::Location::file), Some(file!()));
        assert_eq!(reading.wait().expect_err("refused").kind(), ErrorKind::Unsupported);
    }
    Ok(())
}

#[test]
fn a_dropped_encoder_or_command_buffer_cancels_the_batch_without_effect() -> Result<()> {
    on_each(|app| {
        let x = app.guest.upload(&[5_u32; LEN])?;
        for finished in [false, true] {
            let mut encoder = app.encoder();
            let batch = app.guest.batch();
            batch.dispatch(&app.step, &[&app.shared[0], &x], Grid::items(LEN));
            let reading = batch.read(&x);
            let ticket = batch.encode(&mut encoder)?;
            if finished {
                drop(encoder.finish());
            } else {
                drop(encoder);
            }
            assert_eq!(ticket.wait().expect_err("dropped").kind(), ErrorKind::Canceled);
            assert_eq!(reading.wait().expect_err("dropped").kind(), ErrorKind::Canceled);
            assert_eq!(x.download()?, [5; LEN], "not poisoned and not written");
        }
        Ok(())
    })
}

#[test]
fn waiting_before_the_application_submits_times_out_and_can_be_repeated() -> Result<()> {
    on_each(|app| {
        app.write(&input());
        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        batch.dispatch(&app.step, &[&app.shared[0], &app.shared[1]], Grid::items(LEN));
        let ticket = batch.encode(&mut encoder)?;
        ticket.cancel(); // has no effect
        let error = ticket.wait_timeout(Duration::from_millis(20)).expect_err("not submitted");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(!ticket.is_ready());
        app.submit(encoder);
        // Nobody but sortie's own thread polls.
        ticket.wait()?;
        assert_eq!(app.shared[1].download()?, input().into_iter().map(|x| steps(x, 1)).collect::<Vec<_>>());
        Ok(())
    })
}

#[test]
fn memory_of_an_encoded_batch_is_not_reused_before_it_has_run() -> Result<()> {
    on_each(|app| {
        app.write(&input());
        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        let room = batch.scratch::<u32>(LEN);
        let x = app.guest.upload(&input())?;
        batch.dispatch(&app.step, &[&x, &room], Grid::items(LEN));
        let reading = batch.read(room);
        let ticket = batch.encode(&mut encoder)?;
        drop(x);
        app.guest.trim();
        for _ in 0..8 {
            drop(app.guest.upload(&[9_u32; LEN])?);
        }
        app.submit(encoder);
        ticket.wait()?;
        assert_eq!(reading.wait()?, input().into_iter().map(|x| steps(x, 1)).collect::<Vec<_>>());
        Ok(())
    })
}

#[test]
fn a_lost_device_resolves_an_encoded_batch_submitted_or_not() -> Result<()> {
    let mut devices = installed();
    devices.push("noop".into());
    for driver in devices {
        for submitted in [false, true] {
            let app = Application::open(&driver, None)?;
            let mut encoder = app.encoder();
            let batch = app.guest.batch();
            batch.fill(&app.shared[0], 3);
            let reading = batch.read(&app.shared[0]);
            let ticket = batch.encode(&mut encoder)?;
            let (gpu, queue) = app.wgpu();
            gpu.destroy();
            let commands = encoder.finish();
            let mut kept = Some(commands);
            if submitted {
                let scope = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
                queue.submit(kept.take());
                drop(scope);
            }
            assert_eq!(ticket.wait().expect_err("lost").kind(), ErrorKind::DeviceLost, "{driver} {submitted}");
            assert_eq!(reading.wait().expect_err("lost").kind(), ErrorKind::DeviceLost);
        }
    }
    Ok(())
}

/// wgpu calls back after a submission that it refused, and maps the buffers that nothing was copied to.
#[test]
fn a_command_buffer_that_wgpu_refuses_never_gives_stale_bytes() -> Result<()> {
    on_each(|app| {
        // Fills the pools of staging buffers with other data.
        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        batch.write(&app.shared[0], &[8; LEN]);
        let reading = batch.read(&app.shared[0]);
        batch.encode(&mut encoder)?;
        app.submit(encoder);
        assert_eq!(reading.wait()?, [8; LEN]);

        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        batch.write(&app.shared[0], &[1; LEN]);
        let reading = batch.read(&app.shared[0]);
        let ticket = batch.encode(&mut encoder)?;
        // A mistake of the application's own: beyond the end of the buffer.
        let (gpu, queue) = app.wgpu();
        let scope = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
        encoder.copy_buffer_to_buffer(&app.raw[0], 0, &app.raw[1], 8, 4 * LEN as u64);
        queue.submit([encoder.finish()]);
        drop(scope);
        assert_eq!(ticket.wait().expect_err("refused").kind(), ErrorKind::Canceled);
        assert_eq!(reading.wait().expect_err("refused").kind(), ErrorKind::Canceled);
        assert_eq!(app.shared[0].download()?, [8; LEN], "no effect");
        Ok(())
    })
}

#[test]
fn handles_of_the_guest_may_be_dropped_before_the_application_submits() -> Result<()> {
    on_each(|app| {
        let mut encoder = app.encoder();
        let batch = app.guest.batch();
        batch.write(&app.shared[0], &[4; LEN]);
        let reading = batch.read(&app.shared[0]);
        batch.encode(&mut encoder)?;
        let Application { owner, guest, step, shared, .. } = app;
        drop((guest, step, shared));
        owner.wgpu().expect("a wgpu device").1.submit([encoder.finish()]);
        assert_eq!(reading.wait()?, [4; LEN]);
        Ok(())
    })
}

#[test]
fn an_empty_batch_is_done_at_once_and_a_profile_works_too() -> Result<()> {
    on_each(|app| {
        let mut encoder = app.encoder();
        app.guest.batch().encode(&mut encoder)?.wait()?;
        let batch = app.guest.batch();
        let profile = batch.profile();
        batch.dispatch(&app.step, &[&app.shared[0], &app.shared[1]], Grid::items(LEN));
        batch.encode(&mut encoder)?;
        app.submit(encoder);
        assert_eq!(profile.wait()?.ops().len(), 1);
        Ok(())
    })
}
