//! Mistakes of a batch: how many are printed, which of them `plan` returns, and what is none.

use sortie::{Device, Error, ErrorKind, Grid, Result};

use crate::{STEP, noop};

#[test]
fn a_thousand_mistakes_are_all_listed_and_ten_printed() -> Result<()> {
    let device = noop();
    let (x, short) = (device.zeros::<u32>(100)?, device.zeros::<u32>(50)?);
    let batch = device.batch();
    (0..1000).for_each(|_| batch.copy(&x, &short));
    let error = batch.submit().expect_err("every copy is too long");
    assert_eq!(error.mistakes().len(), 1000);
    let text = error.to_string();
    assert_eq!((text.lines().count(), text.lines().last()), (11, Some("… 990 more")), "{text}");
    assert!(text.lines().nth(9).is_some_and(|tenth| tenth.contains("; op 9, ")), "{text}");
    assert!(format!("{error:?}").len() < 4096);
    Ok(())
}

#[test]
fn plan_returns_every_mistake_and_submit_returns_them_again() -> Result<()> {
    let device = noop();
    let (x, short) = (device.zeros::<u32>(100)?, device.zeros::<u32>(50)?);
    let scale = device.kernel(
        "var<immediate> by: u32;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { x[0] *= by; }",
    )?;
    let batch = device.batch();
    batch.copy(&x, &short);
    batch.dispatch(&scale, &[&x], Grid::items(1)).label("without its immediates");
    batch.write(&x, &[0; 99]);
    let told = |error: &Error| {
        let mistakes = error.mistakes().iter();
        mistakes.map(|mistake| (mistake.op(), mistake.kind(), mistake.to_string())).collect::<Vec<_>>()
    };
    let planned = told(&batch.plan().expect_err("three mistakes"));
    let kinds: Vec<_> = planned.iter().map(|(op, kind, _)| (*op, *kind)).collect();
    assert_eq!(kinds, [(Some(0), ErrorKind::Shape), (Some(1), ErrorKind::Bindings), (Some(2), ErrorKind::Shape)]);
    assert_eq!(told(&batch.plan().expect_err("they are still there")), planned);
    assert_eq!(told(&batch.submit().expect_err("the same")), planned);
    Ok(())
}

#[test]
fn an_empty_buffer_under_a_grid_of_zero_is_a_no_op() -> Result<()> {
    for device in [noop(), Device::cpu()?] {
        let step = device.kernel(STEP)?;
        let uniform = device.kernel(
            "@group(0) @binding(0) var<uniform> by: vec4<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(1) fn main() { y[0] = by.x; }",
        )?;
        let (empty, full) = (device.zeros::<u32>(0)?, device.upload(&[7_u32; 64])?);
        let before = device.metrics();
        let batch = device.batch();
        let scratch = batch.scratch::<u32>(0);
        batch.dispatch(&step, &[&empty, &empty], Grid::items(0));
        batch.dispatch(&step, &[&empty, &full], Grid::groups([0, 3]));
        batch.dispatch(&step, &[&full.slice(4..4), &scratch], Grid::items(empty.len()));
        batch.dispatch(&uniform, &[&empty, &full], Grid::items(0));
        assert_eq!((batch.num_ops(), batch.plan()?.passes()), (4, 0));
        batch.submit()?;
        assert_eq!((device.metrics() - before).dispatches, 0);
        if device.info().backend != "noop" {
            assert_eq!(full.download()?, [7; 64]);
        }
        let batch = device.batch();
        batch.dispatch(&step, &[&empty, &full], Grid::items(0));
        batch.freeze()?.run().submit()?;
    }
    Ok(())
}

#[test]
fn other_mistakes_of_a_dispatch_with_an_empty_buffer_and_a_grid_of_zero_still_count() -> Result<()> {
    let device = noop();
    let three = device.kernel(
        "var<immediate> by: u32;
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read> y: array<u32>;
        @group(0) @binding(2) var<storage, read_write> z: array<u32>;
        @compute @workgroup_size(1) fn main() { z[0] = by * x[0] * y[0]; }",
    )?;
    let (empty, full) = (device.zeros::<u32>(0)?, device.zeros::<u32>(64)?);
    let elsewhere = noop().zeros::<u32>(0)?;
    let batch = device.batch();
    batch.dispatch(&three, &[&empty, &full, &full], Grid::items(0)).label("aliasing");
    batch.dispatch(&three, &[&empty, &elsewhere, &full], Grid::items(0)).label("of another device");
    batch.dispatch(&three, &[&empty, &full.slice(65..65), &empty], Grid::items(0)).label("out of bounds");
    batch.dispatch(&three, &[&empty, &empty], Grid::items(0)).label("one binding short");
    batch.dispatch(&three, &[&empty, &empty, &empty], Grid::items(0)).label("no immediates");
    batch.dispatch(&three, &[&empty, &empty, &empty], Grid::items([0, -1])).immediates(&1_u32).label("negative");
    batch.dispatch(&three, &[&empty, &full, &empty], Grid::items(1)).immediates(&1_u32).label("not a grid of zero");
    batch.dispatch(&three, &[&empty, &empty, &empty], Grid::items(0)).immediates(&1_u32).label("fine");
    let error = batch.submit().expect_err("seven mistakes");
    let found: Vec<_> = error.mistakes().iter().map(|mistake| mistake.label().unwrap_or_default()).collect();
    let made = [
        "aliasing",
        "of another device",
        "out of bounds",
        "one binding short",
        "no immediates",
        "negative",
        "not a grid of zero",
    ];
    assert_eq!(found, made, "{error}");
    let aliasing = error.mistakes()[0].to_string();
    assert!(aliasing.contains("@binding(1) `y` and @group(0) @binding(2) `z`"), "{aliasing}");
    Ok(())
}
