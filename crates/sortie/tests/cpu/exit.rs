//! A program may end while work is under way and more stands in line.

use std::process::Command;

use sortie::{DeviceOptions, Grid};

use crate::{cpu, cpu_with};

/// Tells the child process what to do.
const CHILD: &str = "SORTIE_TEST_EXIT_ON_CPU";

#[test]
fn exiting_with_work_in_flight_does_not_crash() {
    let program = std::env::current_exe().expect("this program");
    for round in 0..5 {
        let mut child = Command::new(&program);
        child.args(["--exact", "exit::leaves_work_in_flight", "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("the child runs");
        assert!(output.status.success(), "round {round}: {:?}", output.status);
    }
}

#[test]
fn exiting_ends_a_kernel_whose_workgroups_wait_for_ever_on_any_number_of_threads() {
    let program = std::env::current_exe().expect("this program");
    for threads in ["1", "2", "4"] {
        let mut child = Command::new(&program);
        child.args(["--exact", "exit::leaves_a_kernel_that_waits", "--nocapture"]).env(CHILD, threads);
        let output = child.output().expect("the child runs");
        assert!(output.status.success(), "{threads} threads: {:?}", output.status);
    }
}

/// The child: does nothing unless it was asked to.
#[test]
fn leaves_a_kernel_that_waits() -> sortie::Result<()> {
    let Some(threads) = std::env::var(CHILD).ok().and_then(|threads| threads.parse().ok()) else { return Ok(()) };
    let device = cpu_with(DeviceOptions::default().with_threads(threads));
    let waits = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> flags: array<atomic<u32>>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) local: u32) {
            if local == 0u { while atomicLoad(&flags[0]) == 0u {} }
        }",
    )?;
    let flags = device.zeros::<u32>(1)?;
    let batch = device.batch();
    batch.dispatch(&waits, &[&flags], Grid::groups([1000, 1, 1]));
    let before = device.metrics().submissions;
    drop(batch.submit_async()?);
    while device.metrics().submissions == before {
        std::thread::yield_now();
    }
    Ok(())
}

/// The child: does nothing unless it was asked to.
#[test]
fn leaves_work_in_flight() -> sortie::Result<()> {
    if std::env::var_os(CHILD).is_none() {
        return Ok(());
    }
    let device = cpu();
    let busy = device.zeros::<u32>(1 << 20)?;
    for _ in 0..3 {
        let batch = device.batch();
        (1..200).for_each(|value| batch.fill(&busy, value));
        drop(batch.submit_async()?);
    }
    Ok(())
}
