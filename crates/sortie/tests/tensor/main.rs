//! Tensor operations against f64 maths, on every device there is, with fusion on and off.
#![expect(clippy::single_range_in_vec_init, reason = "a slice of one axis")]

#[path = "../drivers/mod.rs"]
mod drivers;

mod arrange;
mod blocks;
mod checked;
mod count;
mod invariance;
mod joined;
mod map;
mod mistakes;
mod products;
mod random;
mod reduce;
mod rows;
mod tuning;

use std::sync::LazyLock;

use sortie::{Batch, Device, DeviceOptions, Tensor, device::Planning, half::f16, tensor::Element};

/// Every device twice: with fusion and without. And the built-in CPU running the kernels of other devices, with a checker
/// that fails an access out of bounds, and a read of workgroup memory that nothing has written: they are compiled
/// without checks.
fn devices() -> &'static [(String, Device)] {
    static DEVICES: LazyLock<Vec<(String, Device)>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for fuse in [true, false] {
            let planning = Planning { fuse, ..Planning::default() };
            let options = || DeviceOptions::default().with_planning(planning);
            let cpu = Device::cpu_with(options()).unwrap_or_else(|error| panic!("the built-in CPU: {error}"));
            all.push((format!("cpu, fuse {fuse}"), cpu));
            let checked = options().with_check_races(true).with_check_unwritten(true);
            let checked = Device::cpu_with(checked).unwrap_or_else(|error| panic!("the built-in CPU: {error}"));
            all.push((format!("checked kernels, fuse {fuse}"), checked));
            for driver in ["llvmpipe", "swiftshader"] {
                if drivers::open(driver).is_some() {
                    let options = options().with_device(driver);
                    let device = Device::open_with(options).unwrap_or_else(|error| panic!("{driver}: {error}"));
                    all.push((format!("{driver}, fuse {fuse}"), device));
                }
            }
        }
        all
    });
    &DEVICES
}

/// A closure that records, with the lifetimes of one.
fn recording<T, F: for<'b> Fn(&'b Batch) -> Tensor<'b, T>>(record: F) -> F {
    record
}

/// What a tensor comes to on every device.
fn on_all<T: Element>(
    what: &str,
    record: impl for<'b> Fn(&'b Batch) -> Tensor<'b, T>,
    check: impl Fn(&str, &[T]) -> Result<(), String>,
) {
    for (name, device) in devices() {
        let batch = device.batch();
        let reading = record(&batch).read();
        batch.submit().unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
        let found = reading.wait().unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
        if let Err(how) = check(name, &found) {
            panic!("{what} on {name}: {how}");
        }
    }
}

/// Floats within a tolerance: relative, and absolute where numbers are small.
fn near(expected: &[f64], relative: f64, absolute: f64) -> impl Fn(&str, &[f32]) -> Result<(), String> {
    move |name, found| {
        if found.len() != expected.len() {
            return Err(format!("{} elements instead of {}", found.len(), expected.len()));
        }
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let found = f64::from(*found);
            // WGSL leaves it to the driver what becomes of what is not a number; SwiftShader's exp(NaN) is infinite.
            let lost = expected.is_nan() && name.contains("swiftshader");
            let same = found == *expected || (found.is_nan() && expected.is_nan()) || lost;
            if !same && ((found - expected).abs() > expected.abs() * relative + absolute || found.is_nan()) {
                return Err(format!("[{at}] is {found} instead of {expected}"));
            }
        }
        Ok(())
    }
}

/// The very bits.
fn exactly<T: Element + PartialEq + std::fmt::Debug>(expected: &[T]) -> impl Fn(&str, &[T]) -> Result<(), String> {
    move |_, found| match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(at) => Err(format!("[{at}] is {:?} instead of {:?}", found[at], expected[at])),
        None if found.len() != expected.len() => Err(format!("{} elements", found.len())),
        None => Ok(()),
    }
}

/// Halves, made of numbers up to nine: the very bits on the built-in CPU, within two units of the last place of the largest of them and of the
/// result elsewhere, because Vulkan leaves it to the driver which way they are rounded.
fn halves(expected: &[f16]) -> impl Fn(&str, &[f16]) -> Result<(), String> {
    move |name, found| {
        let allowed = |size: f32| if name.contains("cpu") { 0.0 } else { 0.016 + size / 512.0 };
        let near = |(found, expected): (&f16, &f16)| {
            (found.to_f32() - expected.to_f32()).abs() <= allowed(expected.to_f32().abs())
        };
        match found.iter().zip(expected).position(|pair| !near(pair)) {
            Some(at) => Err(format!("[{at}] is {} instead of {}", found[at], expected[at])),
            None if found.len() != expected.len() => Err(format!("{} elements", found.len())),
            None => Ok(()),
        }
    }
}

/// Numbers between −3 and 3, never the same twice in a row.
fn some(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + seed * 104_729) % 6007) as f32 / 1001.0 - 3.0).collect()
}
