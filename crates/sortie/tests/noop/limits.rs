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
    let mut batch = device.batch();
    batch.dispatch(&step, &[&x, &y], Grid::items(64));
    let error = batch.submit().expect_err("over the limit");
    assert_eq!(error.kind(), &ErrorKind::TooLarge { wanted: len as u64 * 4, limit });
    let mut batch = device.batch();
    batch.dispatch(&step, &[&x.slice(64..), &y], Grid::items(64));
    batch.fill(&x, 1.0);
    batch.submit()
}

#[test]
fn a_kernel_with_more_storage_buffers_than_the_device_has_is_too_large() {
    let device = noop();
    let declare = |index| format!("@group(0) @binding({index}) var<storage, read_write> b{index}: array<f32>;");
    let source: String = (0..9).map(declare).chain(["@compute @workgroup_size(1) fn main() {}".into()]).collect();
    assert_eq!(device.kernel(&source).expect_err("9 > 8").kind(), &ErrorKind::TooLarge { wanted: 9, limit: 8 });
}

#[test]
fn devices_are_found_by_name_or_index_and_a_wrong_name_says_what_there_is() {
    let wrong = sortie::DeviceOptions { device: Some("no such device".into()), ..Default::default() };
    let error = sortie::Device::open_with(wrong).expect_err("no such device");
    assert_eq!(error.kind(), &ErrorKind::NoDevice);
    assert!(error.to_string().contains("no such device"), "{error}");
    let info = noop().info().clone();
    assert_eq!((info.backend, info.kind), ("noop", sortie::DeviceKind::Noop));
}
