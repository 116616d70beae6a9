//! One test per bug found, each failing without its fix.

#[path = "../drivers/mod.rs"]
mod drivers;
mod exit;
mod foreign;
mod kernels;
mod loss;
mod memory;
mod mistakes;
mod poison;
mod scopes;
mod threads;
mod tickets;
mod waiting;

use sortie::{Device, DeviceOptions, Result};

/// Runs a test on each Vulkan driver that there is.
fn on_drivers(test: impl Fn(&Device) -> Result<()>) {
    for driver in ["llvmpipe", "swiftshader"] {
        if let Some(device) = drivers::open(driver) {
            test(&device).unwrap_or_else(|error| panic!("on {driver}: {error}"));
        }
    }
}

/// Runs a test on the built-in CPU and on each Vulkan driver, opened with options.
fn on_all_with(options: &DeviceOptions, test: impl Fn(&Device) -> Result<()>) {
    let cpu = Device::cpu_with(options.clone()).ok();
    let drivers =
        ["llvmpipe", "swiftshader"].into_iter().filter_map(|driver| drivers::open_with(driver, options.clone()));
    for device in cpu.into_iter().chain(drivers) {
        test(&device).unwrap_or_else(|error| panic!("on {}: {error}", device.info()));
    }
}

/// Runs for about 100 ms over 8,192 items.
const SLOW: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = id.x;
        for (var i = 0u; i < 60000u; i++) { value = value * 1664525u + 1013904223u; }
        x[id.x] = value;
    }
";

fn noop() -> Device {
    Device::open_with(DeviceOptions::default().with_device("noop")).expect("the noop device opens")
}

/// Reads its first binding and writes its second.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";
