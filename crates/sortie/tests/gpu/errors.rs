//! Failures on a real device: nothing panics, nothing turns into stale data.

use sortie::{Buffer, Device, DeviceOptions, ErrorKind, Grid, Kernel, Result, device::DeviceKind};

use crate::{ONE_IN_FLIGHT, STEP, on_all, on_all_with, on_drivers, step};

fn raw(device: &Device, bytes: u64) -> wgpu::Buffer {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let (wgpu, _) = device.wgpu().expect("a wgpu device");
    wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
}

#[test]
fn a_batch_refused_before_it_started_has_no_effect_and_poisons_nothing() {
    on_drivers(|device| {
        let kernel = device.kernel(STEP)?;
        let raw = raw(device, 64);
        let (gone, y): (Buffer<u32>, _) = (device.import(raw.clone())?, device.upload(&[4_u32; 16])?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&gone, &y], Grid::items(16));
        let reading = batch.read(&y);
        raw.destroy();
        let error = batch.submit().expect_err("the buffer is destroyed");
        assert_eq!(error.kind(), ErrorKind::Bindings);
        assert_eq!(reading.wait().expect_err("the same").to_string(), error.to_string());
        assert_eq!(y.download()?, [4; 16]);
        Ok(())
    });
}

#[test]
fn what_a_failed_later_submission_should_have_written_is_poisoned_until_overwritten() {
    on_drivers(|device| {
        let kernel = device.kernel(STEP)?;
        let (wgpu, _) = device.wgpu().expect("a wgpu device");
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let raw =
            wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false });
        let (mapped, x): (Buffer<u32>, _) = (device.import(raw.clone())?, device.upload(&[4_u32; 16])?);
        let (early, late) = (device.zeros::<u32>(16)?, device.zeros::<u32>(16)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &early], Grid::items(16));
        batch.split();
        batch.dispatch(&kernel, &[&x, &late], Grid::items(16));
        batch.copy(&x, &mapped);
        // wgpu finds out when the second submission is made, and not earlier.
        raw.map_async(wgpu::MapMode::Read, .., |mapped| assert!(mapped.is_ok()));
        wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("the device is idle");
        batch.submit().expect_err("the second submission is refused");
        assert_eq!(early.download()?, [step(4); 16], "the first one ran");

        let error = late.download().expect_err("never written");
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        assert!(std::error::Error::source(&error).is_some(), "with the first error as its cause");
        let batch = device.batch();
        batch.dispatch(&kernel, &[&late, &x], Grid::items(16)).label("reads it");
        let error = batch.submit().expect_err("it reads a poisoned buffer");
        assert_eq!((error.kind(), error.op(), error.label()), (ErrorKind::Poisoned, Some(0), Some("reads it")));
        assert!(error.location().is_some_and(|at| at.file().ends_with("errors.rs")));
        late.slice(..4).write(&[1; 4])?;
        assert_eq!(late.download().expect_err("a part is not all").kind(), ErrorKind::Poisoned);

        let batch = device.batch();
        batch.fill(&late, 8);
        batch.dispatch(&kernel, &[&late, &x], Grid::items(16));
        batch.submit()?;
        assert_eq!((late.download()?, x.download()?), (vec![8; 16], vec![step(8); 16]));
        Ok(())
    });
}

#[test]
fn losing_the_device_fails_windows_in_flight_and_later_ones() {
    on_drivers(|device| {
        let kernel = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<u32>(1 << 16)?, device.zeros::<u32>(1 << 16)?);
        let mut under_way = Vec::new();
        for round in 0..6 {
            if round == 3 {
                device.wgpu().expect("a wgpu device").0.destroy();
            }
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], Grid::items(1 << 16));
            let reading = batch.read(&y);
            under_way.push((batch.submit_async(), reading));
        }
        for (round, (ticket, reading)) in under_way.into_iter().enumerate() {
            let outcome = ticket.and_then(|ticket| ticket.wait());
            let read = reading.wait();
            match (&outcome, &read) {
                // It had landed, but what it read went with the device.
                (Ok(()), Err(error)) if round < 3 => assert_eq!(error.kind(), ErrorKind::DeviceLost),
                _ => assert_eq!(outcome.is_ok(), read.is_ok(), "ticket and reading agree"),
            }
            if round >= 3 {
                assert_eq!(outcome.expect_err("the device is gone").kind(), ErrorKind::DeviceLost);
            }
        }
        assert_eq!(
            device.kernel("@compute @workgroup_size(1) fn other() {}").expect_err("gone").kind(),
            ErrorKind::DeviceLost
        );
        assert_eq!(device.upload(&[1_u32]).expect_err("gone").kind(), ErrorKind::DeviceLost);
        let again = device.reopen()?;
        assert_eq!(again.info().name, device.info().name);
        assert_eq!(again.upload(&[1_u32, 2])?.download()?, [1, 2]);
        Ok(())
    });
}

#[test]
fn an_out_of_bounds_index_corrupts_nothing() {
    on_all(|device| {
        let kernel = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x * 1000u] = 1u; }",
        )?;
        let (before, x, after) = (device.zeros::<u32>(64)?, device.zeros::<u32>(4)?, device.zeros::<u32>(64)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::items(1000));
        batch.submit()?;
        assert_eq!((before.download()?, after.download()?), (vec![0; 64], vec![0; 64]));
        Ok(())
    });
}

/// Iterations and items decide how long it runs.
const SLOW: &str = "
    override rounds: u32;
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = id.x;
        for (var i = 0u; i < rounds; i++) { value = value * 1664525u + 1013904223u; }
        x[id.x] = value;
    }
";

/// Runs for about a second over 65,536 items: 60,000 iterations stay under lavapipe's limit.
fn slow(device: &Device) -> Result<Kernel> {
    let rounds = if device.info().kind == DeviceKind::Cpu { 6_000.0 } else { 60_000.0 };
    device.module(SLOW)?.with("rounds", rounds).kernel("main")
}

#[test]
fn nothing_that_is_asynchronous_waits_for_the_device() {
    on_all(|device| {
        let in_time = (0..20).any(|_| asked_in_time(device).unwrap_or_else(|error| panic!("{error:?}")));
        assert!(in_time, "either it waits, or this thread was held up every time");
        Ok(())
    });
}

/// Asks for many things while the device is busy. False when it was no longer busy at the end.
fn asked_in_time(device: &Device) -> Result<bool> {
    let (slow, kernel) = (slow(device)?, device.kernel(STEP)?);
    let busy = device.zeros::<u32>(1 << 16)?;
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?);
    let batch = device.batch();
    batch.dispatch(&slow, &[&busy], Grid::items(1 << 16));
    let first = batch.submit_async()?;
    let mut last = None;
    for value in 0..5 {
        x.write(&[value; 64])?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(64));
        last = Some(batch.read(&y));
        batch.submit_async()?;
    }
    let upload = device.upload(&[7_u32; 64])?;
    let reading = upload.download_async()?;
    let in_time = match first.wait_timeout(std::time::Duration::from_millis(1)) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Timeout);
            true
        }
    };
    assert_eq!(last.expect("five batches").wait()?, [step(4); 64]);
    assert_eq!(reading.wait()?, [7; 64]);
    assert!(first.is_ready(), "earlier work is done earlier");
    Ok(in_time)
}

#[test]
fn a_canceled_batch_stops_between_its_submissions_at_the_latest() {
    on_all_with(&DeviceOptions::default().with_policy(ONE_IN_FLIGHT), |device| {
        let in_time = (0..20).any(|_| canceled_in_time(device).unwrap_or_else(|error| panic!("{error:?}")));
        // There a submission returns when its work is done, so it cannot be canceled in between.
        assert!(in_time || device.info().backend == "gl", "the device was faster every time");
        Ok(())
    });
}

/// Cancels a batch of two submissions while the first one runs. False when that was over before it could be canceled.
fn canceled_in_time(device: &Device) -> Result<bool> {
    let (slow, kernel) = (slow(device)?, device.kernel(STEP)?);
    let busy = device.zeros::<u32>(1 << 16)?;
    let (x, late, other) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?, device.upload(&[1_u32; 64])?);
    let before = device.metrics().submissions;
    let batch = device.batch();
    batch.dispatch(&slow, &[&busy], Grid::items(1 << 16));
    batch.split();
    batch.dispatch(&kernel, &[&x, &late], Grid::items(64));
    let reading = batch.read(&late);
    let ticket = batch.submit_async()?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x, &other], Grid::items(64));
    let behind = batch.submit_async()?;
    while device.metrics().submissions == before {
        std::thread::yield_now();
    }
    behind.cancel();
    ticket.cancel();
    let (behind, ended) = (behind.wait(), ticket.wait());
    let Err(error) = ended else {
        assert_eq!(reading.wait()?, [step(0); 64], "too late, and done");
        return Ok(false);
    };
    assert_eq!(error.kind(), ErrorKind::Canceled, "half of it had started");
    assert_eq!(behind.expect_err("it had not started").kind(), ErrorKind::Canceled);
    assert_eq!(reading.wait().expect_err("the same").kind(), ErrorKind::Canceled);
    assert_eq!(late.download().expect_err("never written").kind(), ErrorKind::Poisoned);
    assert_eq!(other.download()?, [1; 64], "what never started has had no effect");
    assert_eq!(device.metrics().submissions - before, 2, "the first one, and the download");
    Ok(true)
}
