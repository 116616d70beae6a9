//! Every op and feature on the built-in CPU and on real drivers: lavapipe and SwiftShader, with the Khronos validation layer on and silent, or llvmpipe through GL.

mod access;
#[path = "../drivers/mod.rs"]
mod drivers;
mod errors;
mod grids;
mod immediates;
mod interop;
mod memory;
mod ops;
mod order;
mod portable;
mod random;
mod unchecked;
mod watch;

use sortie::{
    Device, DeviceOptions, Result,
    policy::{Split, SubmitPolicy},
};

/// Reads its first binding and writes its second: y = 2 x + 1.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";

fn step(x: u32) -> u32 {
    x.wrapping_mul(2).wrapping_add(1)
}

/// One submission after the other.
const ONE_IN_FLIGHT: SubmitPolicy = SubmitPolicy { split: Split::Never, in_flight: 1 };

const DRIVERS: [&str; 2] = ["llvmpipe", "swiftshader"];

/// Runs a test on the built-in CPU and on a fresh device of each driver there is.
fn on_all(test: impl Fn(&Device) -> Result<()>) {
    on_all_with(&drivers::uncut(), test);
}

fn on_all_with(options: &DeviceOptions, test: impl Fn(&Device) -> Result<()>) {
    let device = Device::cpu_with(options.clone()).expect("the built-in CPU opens anywhere");
    test(&device).unwrap_or_else(|error| panic!("on {}: {error:?}", device.info()));
    on_drivers_with(options, test);
}

/// For tests of what only wgpu has.
fn on_drivers(test: impl Fn(&Device) -> Result<()>) {
    on_drivers_with(&drivers::uncut(), test);
}

fn on_drivers_with(options: &DeviceOptions, test: impl Fn(&Device) -> Result<()>) {
    watch::begin();
    for driver in DRIVERS {
        let Some(index) = drivers::find(driver) else { continue };
        let options = options.clone().with_device(index.to_string());
        let device =
            Device::open_with(options).unwrap_or_else(|error| panic!("{driver} is listed but does not open: {error}"));
        test(&device).unwrap_or_else(|error| panic!("on {}: {error:?}", device.info()));
    }
    watch::assert_silent();
}

/// How many cases a long test runs: the full count, or a tenth of it.
fn cases(full: usize) -> usize {
    if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { full } else { full.div_ceil(10) }
}
