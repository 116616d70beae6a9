//! Bindings up to and over the device's limits.

use sortie::{ErrorKind, Grid};

use crate::{STEP, noop};

#[test]
fn a_binding_over_the_devices_limit_is_too_large_and_a_slice_of_it_is_not() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let limit = device.info().limits.binding_bytes;
    let len = usize::try_from(limit / 4).expect("64 bits") + 64;
    let (x, y) = (device.zeros::<f32>(len)?, device.zeros::<f32>(64)?);
    let batch = device.batch();
    batch.dispatch(&step, &[&x, &y], Grid::items(64));
    let error = batch.submit().expect_err("over the limit");
    assert_eq!(error.kind(), ErrorKind::TooLarge { wanted: len as u64 * 4, limit });
    let batch = device.batch();
    batch.dispatch(&step, &[&x.slice(64..), &y], Grid::items(64));
    batch.fill(&x, 1.0);
    batch.submit()
}

#[test]
fn a_kernel_with_more_storage_buffers_than_the_device_has_is_too_large() {
    let device = noop();
    let declare = |index| format!("@group(0) @binding({index}) var<storage, read_write> b{index}: array<f32>;");
    let uses: String = (0..9).map(|index| format!("b{index}[0] = 1.0;")).collect();
    let entries = format!(
        "@compute @workgroup_size(1) fn all() {{ {uses} }} @compute @workgroup_size(1) fn one() {{ b7[0] = 1.0; }}"
    );
    let source: String = (0..9).map(declare).chain([entries]).collect();
    let kernel = |entry: &str| device.module(&source)?.kernel(entry);
    assert_eq!(kernel("all").expect_err("9 > 8").kind(), ErrorKind::TooLarge { wanted: 9, limit: 8 });
    assert_eq!(kernel("one").map(|kernel| kernel.num_bindings()).ok(), Some(1));
}

#[test]
fn the_error_for_too_many_buffers_names_the_unused_bindings() -> sortie::Result<()> {
    let device = noop();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>; var<immediate> z: u32;
        @compute @workgroup_size(1) fn main() { x[0] = 1.0; }",
    )?;
    let x = device.zeros::<f32>(1)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x, &x], Grid::groups(1));
    batch.dispatch(&kernel, &[&x], Grid::groups(1)).immediates(&1_u32);
    let error = batch.submit().expect_err("one too many, and immediates");
    let [bindings, immediates] = error.mistakes() else { panic!("two mistakes, not {error}") };
    let text = "kernel \"main\" takes 1 binding (@group(0) @binding(0) `x`), not 2; it does not use `y`, `z`; ";
    assert!(bindings.to_string().starts_with(text), "{bindings}");
    assert!(
        immediates.to_string().starts_with("the kernel uses no immediates, but 4 bytes were given"),
        "{immediates}"
    );
    Ok(())
}

#[test]
fn devices_are_found_by_name_or_index_and_a_wrong_name_says_what_there_is() {
    let wrong = sortie::DeviceOptions::default().with_device("no such device");
    let error = sortie::Device::open_with(wrong).expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.to_string().contains("no such device"), "{error}");
    let info = noop().info().clone();
    assert_eq!((info.backend, info.kind), ("noop", sortie::device::DeviceKind::Noop));
}
