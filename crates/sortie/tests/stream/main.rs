//! Streams through their public face: answers and their order, faults, and what they take.

#[path = "../drivers/mod.rs"]
mod installed;

mod answers;
mod bounds;
mod faults;
mod random;

use sortie::{Device, Kernel, Stream};

/// Every device that runs something.
fn devices() -> Vec<(&'static str, Device)> {
    let mut all: Vec<(&str, Device)> = installed::cpu().map(|device| ("cpu", device)).into_iter().collect();
    for driver in ["llvmpipe", "swiftshader"] {
        all.extend(installed::open(driver).map(|device| (driver, device)));
    }
    all
}

fn on_all(test: impl Fn(&str, &Device) -> sortie::Result<()>) {
    for (name, device) in devices() {
        test(name, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

fn noop() -> Device {
    let options = installed::uncut().with_device("noop");
    Device::open_with(options).unwrap_or_else(|error| panic!("noop: {error}"))
}

/// y = 3 x + 1.
const TRIPLE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = 3u * x[id.x] + 1u; }
    }";

fn triple(device: &Device) -> Stream<'static, u32, u32> {
    Stream::kernel(device, &kernel(device, TRIPLE))
}

fn kernel(device: &Device, source: &str) -> Kernel {
    device.kernel(source).unwrap_or_else(|error| panic!("{error}"))
}

fn tripled(numbers: &[u32]) -> Vec<u32> {
    numbers.iter().map(|number| number.wrapping_mul(3).wrapping_add(1)).collect()
}

/// All different, so that one in another's place is seen.
fn numbers(len: u32) -> Vec<u32> {
    (0..len).map(|number| number.wrapping_mul(2_654_435_761)).collect()
}
