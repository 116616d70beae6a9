//! Mistakes name both shapes, the label and the user's line.

use std::panic::Location;

use sortie::{Device, ErrorKind};

fn device() -> Device {
    Device::cpu().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn shapes_that_do_not_fit_are_named_with_label_and_line() {
    let device = device();
    let batch = device.batch();
    let x = batch.tensor_from(&[0.0_f32; 6], [2, 3]);
    let y = batch.tensor_from(&[0.0_f32; 8], [2, 4]);
    let line = Location::caller().line() + 1;
    let z = x.matmul(y).label("proj");
    // What is made of it has no mistakes of its own.
    let z = z.relu();
    let z = z + x;
    let reading = batch.read(z);
    let error = batch.submit().expect_err("a mistake");
    assert_eq!((error.kind(), error.label()), (ErrorKind::Shape, Some("proj")));
    assert_eq!(error.location().map(Location::line), Some(line));
    assert!(error.to_string().contains("matmul: left is [2, 3] but right is [2, 4]"), "{error}");
    assert!(reading.wait().is_err());
}

#[test]
fn every_wrong_shape_is_refused() {
    let device = device();
    let batch = device.batch();
    let x = batch.tensor_from(&[0.0_f32; 6], [2, 3]);
    let v = batch.tensor_from(&[0.0_f32; 6], [6]);
    batch.tensor_from(&[0.0_f32; 6], [7]);
    batch.tensor_from(&[0.0_f32; 1], [1; 7]);
    let _ = x + v;
    let _ = x.dot(v);
    let _ = x.sum(&[2]);
    let _ = x.max(&[3]);
    let _ = x.mean(&[4]);
    let _ = x.cast::<half::f16>().min(&[5]);
    let _ = x.permute(&[0, 0]);
    let _ = x.slice(&[0..3]);
    let _ = x.slice(&[1..2, 0..1, 0..1]);
    let _ = x.reshape([5]);
    let _ = x.broadcast([3, 3]);
    let _ = x.concat(&[x], 2);
    let scalar = v.reshape([1, 6]);
    let scalar = scalar.sum(&[0, 1]);
    let _ = scalar.softmax();
    let error = batch.submit().expect_err("mistakes");
    let text = error.mistakes().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let wanted = [
        "tensor_from: 6 elements do not make a tensor of shape [7]",
        "tensor_from: [1, 1, 1, 1, 1, 1, 1] is no shape",
        "add: left is [2, 3] but right is [6]",
        "dot: left is [2, 3] but right is [6]",
        "sum: a tensor of shape [2, 3] has no axis 2",
        "max: a tensor of shape [2, 3] has no axis 3",
        "mean: a tensor of shape [2, 3] has no axis 4",
        "min: a tensor of shape [2, 3] has no axis 5",
        "permute: [0, 0] is no order of the axes of [2, 3]",
        "slice: [0..3] does not fit a tensor of shape [2, 3]",
        "reshape: 6 elements do not make a tensor of shape [5]",
        "broadcast: [2, 3] does not stretch to [3, 3]",
        "concat along axis 2: left is [2, 3] but right is [2, 3]",
        "softmax: a tensor of shape [] has no axis 0",
    ];
    let elsewhere: Vec<_> =
        error.mistakes().iter().filter(|one| one.location().is_none_or(|at| at.file() != file!())).collect();
    assert!(elsewhere.is_empty(), "not lines of this file: {elsewhere:?}");
    let missing: Vec<_> = wanted.iter().filter(|wanted| !text.contains(**wanted)).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{text}");
}

#[test]
fn shapes_that_go_together_and_have_too_many_elements_are_too_large() {
    let device = device();
    let batch = device.batch();
    let column = batch.scratch::<f32>(1 << 20);
    let (column, row) = (batch.tensor(column, [1 << 20, 1]), batch.tensor(column, [1, 1 << 20]));
    let _ = column + row;
    let _ = column.matmul(row);
    let error = batch.submit().expect_err("2⁴⁰ elements");
    let [sum, product] = error.mistakes() else { panic!("two mistakes, not {error}") };
    let too_large = ErrorKind::TooLarge { wanted: 1 << 40, limit: (1 << 32) - 1 };
    assert_eq!([sum.kind(), product.kind()], [too_large; 2]);
    let text = "elements of [1048576, 1048576]: 1099511627776 is over the limit of 4294967295; ";
    assert!(sum.to_string().starts_with(&format!("add: {text}")), "{sum}");
    assert!(product.to_string().starts_with(&format!("matmul: {text}")), "{product}");
}

#[test]
fn a_tensor_of_another_batch_is_a_mistake() {
    let device = device();
    let other = device.batch();
    let foreign = other.tensor_from(&[1.0_f32; 4], [4]);
    let batch = device.batch();
    let own = batch.tensor_from(&[1.0_f32; 4], [4]);
    let line = Location::caller().line() + 1;
    let _ = own + foreign;
    let error = batch.submit().expect_err("a mistake");
    assert!(error.to_string().contains("add: a tensor of another batch"), "{error}");
    assert_eq!(error.location().map(Location::line), Some(line));
    let batch = device.batch();
    drop(batch.read(foreign));
    let error = batch.submit().expect_err("a mistake");
    assert_eq!(error.kind(), ErrorKind::Bindings);
    assert!(error.to_string().starts_with("read: the slot or tensor belongs to another batch; "), "{error}");
}
