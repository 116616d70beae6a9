//! Compiled pipelines in a file: when it is written, when it is believed, and that it never changes a result.

mod believed;
#[path = "../drivers/mod.rs"]
mod drivers;
mod place;
mod written;

use place::Place;
use sortie::{Buffer, Device, DeviceOptions, Grid, device::CacheDir};

const DRIVERS: [&str; 2] = ["llvmpipe", "swiftshader"];

/// Runs a test on each driver there is, with a place of its own.
fn on_drivers(name: &str, test: impl Fn(&Place)) {
    for driver in DRIVERS {
        if let Some(device) = drivers::open_with(driver, no_cache()) {
            test(&Place::new(&format!("{name}-{driver}"), device.info().name.clone()));
        }
    }
}

fn no_cache() -> DeviceOptions {
    DeviceOptions::default().with_cache(CacheDir::Off)
}

/// Compiles a kernel like no other, runs it and looks at the answer.
fn use_kernel(device: &Device, number: u32) {
    let source = format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{ x[id.x] += {number}u; }}"
    );
    let run = || {
        let kernel = device.kernel(&source)?;
        let x: Buffer<u32> = device.upload(&[1, 2, 3, 4])?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::items(4));
        batch.submit()?;
        x.download()
    };
    let answer = run().unwrap_or_else(|error: sortie::Error| panic!("{error}"));
    assert_eq!(answer, [1, 2, 3, 4].map(|x| x + number));
}
