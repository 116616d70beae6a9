//! A program that exits with work in flight crashed in the driver: its library was torn down while a kernel ran, or while our own thread
//! let go of the device.

use std::process::Command;

use sortie::{Device, DeviceInfo, DeviceOptions, Grid, Result};

/// Names the driver to the child process.
const DRIVER: &str = "SORTIE_TEST_EXIT_ON";

const SLOW: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = id.x;
        for (var i = 0u; i < 6000u; i++) { value = value * 1664525u + 1013904223u; }
        x[id.x] = value;
    }
";

/// Runs a test of this file as a program of its own, several times, on each driver there is.
fn ends_well(test: &str) {
    for driver in ["llvmpipe", "swiftshader"] {
        let is_there = |info: &DeviceInfo| info.backend == "vulkan" && info.name.to_lowercase().contains(driver);
        if !Device::list().iter().any(is_there) {
            assert!(std::env::var_os("SORTIE_REQUIRE_GPU").is_none(), "{driver} does not open");
            continue;
        }
        let program = std::env::current_exe().expect("this program");
        for round in 0..15 {
            let mut child = Command::new(&program);
            child.args(["--exact", test, "--nocapture"]).env(DRIVER, driver);
            let output = child.output().expect("the child runs");
            assert!(output.status.success(), "round {round} on {driver}: {:?}", output.status);
        }
    }
}

#[test]
fn exiting_with_work_in_flight_does_not_crash() {
    ends_well("exit::leaves_work_in_flight");
}

/// The built-in CPU loads no driver: what it asked of the C runtime at exit came after what a driver loaded later had asked.
#[test]
fn exiting_after_the_built_in_cpu_was_opened_first_does_not_crash() {
    ends_well("exit::opens_a_driver_late");
}

/// A child: does nothing unless it was asked to.
#[test]
fn opens_a_driver_late() -> Result<()> {
    let Ok(driver) = std::env::var(DRIVER) else { return Ok(()) };
    let cpu = Device::cpu()?;
    drop(cpu.upload(&[1_u32])?.download()?);
    let device = Device::open_with(DeviceOptions { device: Some(driver), ..DeviceOptions::default() })?;
    let slow = device.kernel(SLOW)?;
    let busy = device.zeros::<u32>(1 << 10)?;
    let mut batch = device.batch();
    batch.dispatch(&slow, &[&busy], Grid::items(1 << 10));
    batch.submit()
}

/// The child: does nothing unless it was asked to.
#[test]
fn leaves_work_in_flight() -> Result<()> {
    let Ok(driver) = std::env::var(DRIVER) else { return Ok(()) };
    let device = Device::open_with(DeviceOptions { device: Some(driver), ..DeviceOptions::default() })?;
    let slow = device.kernel(SLOW)?;
    let busy = device.zeros::<u32>(1 << 14)?;
    for _ in 0..3 {
        let mut batch = device.batch();
        batch.dispatch(&slow, &[&busy], Grid::items(1 << 14));
        drop(batch.submit_async()?);
    }
    Ok(())
}
