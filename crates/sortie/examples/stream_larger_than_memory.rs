//! Streams 128 MiB through a device with a memory limit of 16 MiB, window by window, and checks the results.
//!
//! `cargo run --release -p sortie --example stream_larger_than_memory`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::convert::Infallible;

use sortie::{
    Device, DeviceOptions, Stream,
    stream::{Sink, Source},
};

/// Sizes of the data and of the device's memory limit.
const ELEMENTS: u32 = 32 << 20;
const BUDGET: u64 = 16 << 20;

/// One step of a random number generator.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = 1664525u * x[id.x] + 1013904223u; }
    }";

fn main() -> sortie::Result<()> {
    let device = Device::open_with(DeviceOptions::default().with_memory_budget(BUDGET))?;
    let step = device.kernel(STEP)?;

    // The data never exists as a whole: it is generated on demand and checked as it comes out.
    let mut expected = 0..ELEMENTS;
    let mut most = 0;
    let sink = Sink::each(|window: &[u32]| {
        most = most.max(device.memory_bytes());
        for (found, x) in window.iter().zip(&mut expected) {
            assert_eq!(*found, x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223), "of {x}");
        }
        Ok::<(), Infallible>(())
    });
    let done = Stream::<u32, u32>::kernel(&device, &step)
        .window(2 << 20)
        .on_progress(|progress| {
            if progress.windows.is_multiple_of(16) {
                println!("{:>3.0} %", 100.0 * progress.fraction().unwrap_or(0.0));
            }
        })
        .run(Source::items(0..ELEMENTS), sink)?;

    assert_eq!(done.elements_out, u64::from(ELEMENTS));
    println!(
        "{} MiB in {} windows through {} with at most {} MiB of it: {:.2} GiB/s",
        done.bytes_in >> 20,
        done.windows,
        device.info(),
        most >> 20,
        done.bytes_per_second() / f64::from(1 << 30)
    );
    Ok(())
}
