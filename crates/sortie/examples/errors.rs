//! Mistakes made on purpose. Recording never fails; `submit` returns every mistake with the line that made it, before anything runs.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::panic::Location;

use sortie::{Device, ErrorKind, Grid, Result};

const ADD: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] += x[id.x]; }
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    let add = device.kernel(ADD)?;
    let x = device.upload(&[1.0_f32; 100])?;
    let y = device.zeros::<f32>(100)?;
    let short = device.zeros::<f32>(50)?;

    let batch = device.batch();
    batch.dispatch(&add, &[&x, &y], Grid::items(100)).label("fine");
    let first = line!() + 1; // of five mistakes, one to a line
    batch.dispatch(&add, &[&x], Grid::items(100)).label("one binding too few");
    batch.scope("layer", |batch| _ = batch.dispatch(&add, &[&x, &x], Grid::items(100)).label("reads what it writes"));
    batch.copy(&x, &short);
    batch.write(&y, &[0.0; 99]);
    batch.dispatch(&add, &[&x, &y], Grid::items(1_u64 << 40));
    let reading = batch.read(&y);
    let error = batch.submit().expect_err("five mistakes");
    println!("{error}\n");

    let too_large = ErrorKind::TooLarge { wanted: 1 << 40, limit: 1 << 32 };
    let kinds = [ErrorKind::Bindings, ErrorKind::Bindings, ErrorKind::Shape, ErrorKind::Shape, too_large];
    assert_eq!(error.mistakes().len(), kinds.len());
    for ((mistake, kind), line) in error.mistakes().iter().zip(kinds).zip(first..) {
        assert_eq!(
            (mistake.kind(), mistake.location().map(|at| (at.file(), at.line()))),
            (kind, Some((file!(), line)))
        );
    }
    let second = &error.mistakes()[1];
    assert_eq!((second.op(), second.label()), (Some(2), Some("layer/reads what it writes")));

    // A reading of a refused batch returns the error. Nothing has run, not even the valid dispatch.
    assert_eq!(reading.wait().expect_err("refused").kind(), ErrorKind::Bindings);
    assert_eq!(y.download()?, [0.0; 100]);

    // WGSL that does not compile returns naga's message.
    let error =
        device.kernel("@compute @workgroup_size(1) fn main() { let x = 1.0 + true; }").expect_err("no such sum");
    println!("{error}");
    assert_eq!((error.kind(), error.location().map(Location::line)), (ErrorKind::Shader, Some(line!() - 2)));
    Ok(())
}
