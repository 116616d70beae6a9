//! Mistakes with replays: errors that say what is wrong, and where.

use sortie::{Device, ErrorKind};

fn device() -> Device {
    Device::cpu().unwrap_or_else(|error| panic!("the built-in CPU: {error}"))
}

#[test]
fn a_run_says_what_is_wrong_with_it() {
    let device = device();
    let batch = device.batch();
    let ((x, values), (y, _)) = (batch.input::<f32>([4]), batch.input::<f32>([2, 2]));
    let out = values.sum(&[0]).output();
    let replay = batch.freeze().expect("a replay");

    let other = device.batch();
    let (foreign_input, foreign) = other.input::<f32>([4]);
    let foreign_out = other.output(foreign);
    other.freeze().expect("another replay");

    let mut run = replay.run();
    run.write(x, &[1.0; 3]);
    run.write(foreign_input, &[1.0; 4]);
    let reading = run.read(out);
    let other_reading = run.read(foreign_out);
    let error = run.submit().expect_err("three mistakes and two inputs forgotten");
    let text = error.to_string();
    for part in [
        "3 elements into an input of 4",
        "the input is of another replay",
        "the output is of another replay",
        "input 1 of 2 has no data",
        "mistakes.rs:",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert_eq!(reading.wait().expect_err("the same").to_string(), text);
    assert!(other_reading.wait().is_err());

    // It runs all the same once it is right.
    let mut run = replay.run();
    run.write(x, &[1.0; 4]);
    run.write(y, &[0.0; 4]);
    let reading = run.read(out);
    run.submit().expect("a run");
    assert_eq!(reading.wait().expect("data"), [4.0]);
}

#[test]
fn what_is_for_replays_is_not_submitted_and_the_other_way_round() {
    let device = device();
    let batch = device.batch();
    let (_, x) = batch.input::<u32>([4]);
    let _ = x + x;
    let error = batch.submit().expect_err("it has an input");
    assert!(error.kind() == ErrorKind::Bindings && error.to_string().contains("freeze"), "{error}");

    let batch = device.batch();
    let x = batch.tensor_from(&[1_u32, 2], [2]);
    let reading = batch.read(x);
    let error = batch.freeze().expect_err("it has a reading");
    assert!(error.to_string().contains("ask for an output"), "{error}");
    assert_eq!(reading.wait().expect_err("the same").to_string(), error.to_string());

    let batch = device.batch();
    let ((_, x), (_, y)) = (batch.input::<f32>([3]), batch.input::<f32>([4]));
    let _ = x + y;
    let error = batch.freeze().expect_err("shapes that do not fit");
    assert!(error.to_string().contains("[3]") && error.to_string().contains("mistakes.rs:"), "{error}");
}

#[test]
fn a_run_that_is_dropped_tells_its_readings() {
    let device = device();
    let batch = device.batch();
    let (x_input, x) = batch.input::<f32>([0]);
    let (y_input, y) = batch.input::<f32>([2]);
    let out = batch.output(y);
    let empty = batch.output(x);
    let replay = batch.freeze().expect("a replay");
    let mut run = replay.run();
    let reading = run.read(out);
    drop(run);
    assert_eq!(reading.wait().expect_err("dropped").kind(), ErrorKind::Canceled);
    // An input without elements needs no data, and may be given none.
    let mut run = replay.run();
    run.write(x_input, &[]);
    run.write(y_input, &[1.0, 2.0]);
    let (reading, empty) = (run.read(out), run.read(empty));
    run.submit().expect("a run");
    assert_eq!((reading.wait().expect("data"), empty.wait().expect("none")), (vec![1.0, 2.0], vec![]));
}
