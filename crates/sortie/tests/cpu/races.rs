//! Kernels that run into themselves are found out, with their line and the user's.

use std::panic::Location;

use sortie::{Device, DeviceOptions, ErrorKind, Grid};

use crate::cpu_with;

fn watched() -> Device {
    cpu_with(DeviceOptions { check_races: true, ..DeviceOptions::default() })
}

#[test]
fn two_invocations_that_write_one_word_are_named_with_the_line() -> sortie::Result<()> {
    let device = watched();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn collide(@builtin(global_invocation_id) id: vec3<u32>) {
            x[0] = id.x;
        }",
    )?;
    let x = device.zeros::<u32>(64)?;
    let mut batch = device.batch();
    let line = Location::caller().line() + 1;
    batch.dispatch(&kernel, &[&x], Grid::items(64)).label("collision");
    let error = batch.submit().expect_err("a race");
    assert_eq!((error.kind(), error.op(), error.label()), (&ErrorKind::Race, Some(0), Some("collision")));
    assert_eq!(error.location().map(Location::line), Some(line));
    assert!(error.to_string().contains("\"collide\"") && error.to_string().contains("at line 4"), "{error}");
    assert_eq!(x.download().expect_err("it had begun").kind(), &ErrorKind::Poisoned);
    Ok(())
}

#[test]
fn a_kernel_without_fault_gives_the_answer_it_always_gives() -> sortie::Result<()> {
    let device = watched();
    let kernel = device.kernel(
        "var<workgroup> half: array<u32, 64>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
            half[i] = x[id.x];
            workgroupBarrier();
            x[id.x] = half[63u - i];
        }",
    )?;
    let data: Vec<u32> = (0..256).collect();
    let x = device.upload(&data)?;
    let mut batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::items(256));
    batch.submit()?;
    let expected: Vec<u32> = data.chunks(64).flat_map(|group| group.iter().rev().copied()).collect();
    assert_eq!(x.download()?, expected);
    Ok(())
}
