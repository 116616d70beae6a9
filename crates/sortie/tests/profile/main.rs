//! Profiles, traces and watches through their public face, on every device there is.

#[path = "../drivers/mod.rs"]
mod drivers;

mod counts;
mod ops;
mod runs;
mod tiers;
mod traces;

use sortie::Device;

/// Every device that runs something.
fn devices() -> Vec<(&'static str, Device)> {
    let mut all: Vec<(&str, Device)> = drivers::cpu().map(|device| ("cpu", device)).into_iter().collect();
    for driver in ["llvmpipe", "swiftshader"] {
        all.extend(drivers::open(driver).map(|device| (driver, device)));
    }
    all
}

fn noop() -> Device {
    Device::open_with(drivers::uncut().with_device("noop"))
        .unwrap_or_else(|error| panic!("noop does not open: {error}"))
}

/// Adds one to every element, a number of times that shows in how long it takes.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn step(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + 1.0; }
    }";
