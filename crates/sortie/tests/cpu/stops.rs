//! A kernel that does not end by itself: stopped by its budget, or through its ticket.

use std::time::Duration;

use sortie::{Device, DeviceOptions, ErrorKind, Grid};

use crate::{cpu, cpu_with};

/// Runs until its second word is set, which never happens.
const SPIN: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    @compute @workgroup_size(64)
    fn spin(@builtin(global_invocation_id) id: vec3<u32>) {
        atomicStore(&x[0], 1u);
        loop { if atomicLoad(&x[1]) == 1u { break; } }
    }
";

fn started(device: &Device) -> u64 {
    device.metrics().submissions
}

#[test]
fn a_kernel_over_its_budget_is_stopped_and_named() -> sortie::Result<()> {
    let budget = Some(Duration::from_millis(20));
    for threads in [1, 2] {
        let device = cpu_with(DeviceOptions::default().with_kernel_budget(budget).with_threads(threads));
        let spin = device.kernel(SPIN)?;
        let (x, other) = (device.zeros::<u32>(2)?, device.upload(&[5_u32])?);
        let batch = device.batch();
        batch.fill(&x, 0);
        batch.dispatch(&spin, &[&x], Grid::items(10_000)).label("for ever");
        let reading = batch.read(&other);
        let error = batch.submit().expect_err("it does not end");
        assert_eq!((error.kind(), error.op(), error.label()), (ErrorKind::Timeout, Some(1), Some("for ever")));
        assert!(error.to_string().contains("\"spin\"") && error.to_string().contains("20ms"), "{error}");
        assert!(error.location().is_some_and(|at| at.file().ends_with("stops.rs")));
        assert_eq!(reading.wait().expect_err("the same").to_string(), error.to_string());
        assert_eq!(x.download().expect_err("half done").kind(), ErrorKind::Poisoned);
        assert_eq!(other.download()?, [5]);
        // A busy machine may take longer over nothing than the budget is.
        let ends = (0..100).any(|_| {
            x.write(&[0, 1]).expect("it is overwritten");
            let batch = device.batch();
            batch.dispatch(&spin, &[&x], Grid::items(64));
            batch.submit().map_err(|error| assert_eq!(error.kind(), ErrorKind::Timeout)).is_ok()
        });
        assert!(ends, "within its budget it runs as ever");
        assert_eq!(x.download()?, [1, 1]);
    }
    Ok(())
}

#[test]
fn a_running_kernel_is_canceled_and_what_follows_runs() -> sortie::Result<()> {
    for threads in [1, 2, 4] {
        canceled_on(&cpu_with(DeviceOptions::default().with_threads(threads)))?;
    }
    Ok(())
}

fn canceled_on(device: &Device) -> sortie::Result<()> {
    let spin = device.kernel(SPIN)?;
    let (x, y) = (device.zeros::<u32>(2)?, device.zeros::<u32>(2)?);
    let before = started(device);
    let batch = device.batch();
    batch.dispatch(&spin, &[&x], Grid::items(10_000));
    batch.split();
    batch.fill(&y, 1);
    let ticket = batch.submit_async()?;
    let batch = device.batch();
    let fine = device.upload(&[7_u32])?;
    let next = batch.read(&fine);
    drop(batch.submit_async()?);
    while started(device) == before {
        std::thread::yield_now();
    }
    assert!(!ticket.is_ready() && !next.is_ready());
    ticket.cancel();
    assert_eq!(ticket.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    assert_eq!(next.wait()?, [7]);
    assert_eq!(x.download().expect_err("half done").kind(), ErrorKind::Poisoned);
    assert_eq!(y.download().expect_err("never written, though it should have been").kind(), ErrorKind::Poisoned);
    Ok(())
}

#[test]
fn what_waits_behind_a_kernel_that_does_not_end_is_canceled_at_once() -> sortie::Result<()> {
    let device = cpu();
    let spin = device.kernel(SPIN)?;
    let (x, y) = (device.zeros::<u32>(2)?, device.upload(&[1_u32])?);
    let batch = device.batch();
    batch.dispatch(&spin, &[&x], Grid::items(1));
    let first = batch.submit_async()?;
    let batch = device.batch();
    batch.fill(&y, 2);
    let second = batch.submit_async()?;
    second.cancel();
    assert_eq!(second.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    first.cancel();
    assert_eq!(first.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    assert_eq!(y.download()?, [1]);
    Ok(())
}
