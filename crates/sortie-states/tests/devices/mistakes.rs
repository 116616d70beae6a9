//! Mistakes: named by request, found before the device is touched.

use std::error::Error;

use sortie::{Device, DeviceOptions, ErrorKind};
use sortie_states::{Bezier, Interpolation, Sequence, State, States, StatesError};

use crate::on_each;

fn states(count: usize) -> Vec<State> {
    vec![State::from_byte(0x21); count]
}

#[test]
fn ends_of_different_lengths_name_their_request_and_touch_nothing() {
    let fine = Interpolation { a: states(3), b: states(3), t: 0.5, slerp: true };
    let wrong = Interpolation { b: states(2), ..fine.clone() };
    on_each(|name, device, ops| {
        let before = device.metrics();
        let error = ops.interpolate(&[fine.clone(), fine.clone(), wrong.clone()]).expect_err(name);
        assert!(
            matches!(error, StatesError::Lengths { request: 2, first: 3, other: 2, which: "b" }),
            "{name}: {error:?}"
        );
        assert_eq!(error.to_string(), "request 2: `a` has 3 states but `b` has 2");
        let frames = Sequence { a: states(1), b: vec![], frames: 2, slerp: false };
        let error = ops.sequence(&[frames]).expect_err(name);
        assert!(
            matches!(error, StatesError::Lengths { request: 0, first: 1, other: 0, which: "b" }),
            "{name}: {error:?}"
        );
        let curve = Bezier { points: [states(1), states(1), states(4)], t: 0.1 };
        let error = ops.quadratic_bezier(&[curve]).expect_err(name);
        assert!(
            matches!(error, StatesError::Lengths { request: 0, first: 1, other: 4, which: "points[2]" }),
            "{name}: {error:?}"
        );
        assert_eq!(error.to_string(), "request 0: `points[0]` has 1 state but `points[2]` has 4");
        assert_eq!(device.metrics(), before, "{name}");
    });
}

#[test]
fn nan_names_its_request() {
    let fine = Interpolation { a: states(1), b: states(1), t: 0.5, slerp: true };
    let wrong = Interpolation { t: f32::NAN, ..fine.clone() };
    on_each(|name, device, ops| {
        let before = device.metrics();
        let error = ops.interpolate(&[fine.clone(), wrong.clone()]).expect_err(name);
        assert!(matches!(error, StatesError::NotANumber { request: 1 }), "{name}: {error:?}");
        assert_eq!(error.to_string(), "request 1: t is not a number");
        let curve = Bezier { points: [states(1), states(1), states(1), states(1)], t: f32::NAN };
        let error = ops.cubic_bezier(&[curve]).expect_err(name);
        assert!(matches!(error, StatesError::NotANumber { request: 0 }), "{name}: {error:?}");
        assert_eq!(device.metrics(), before, "{name}");
    });
}

#[test]
fn a_refused_request_records_nothing() {
    on_each(|name, device, ops| {
        let batch = device.batch();
        let wrong = Interpolation { a: states(1), b: states(1), t: f32::NAN, slerp: true };
        assert!(ops.record_interpolate(&batch, &[wrong]).is_err(), "{name}");
        assert_eq!((batch.num_ops(), batch.num_slots()), (0, 0), "{name}");
    });
}

#[test]
fn too_many_frames_are_refused_before_they_are_made() {
    on_each(|name, _, ops| {
        let frames = Sequence { a: states(2), b: states(2), frames: 1 << 27, slerp: true };
        let error = ops.sequence(&[frames]).expect_err(name);
        assert!(matches!(error, StatesError::TooMany { request: 0, .. }), "{name}: {error:?}");
    });
}

#[test]
fn what_the_device_says_is_the_source() {
    let opened = || Device::cpu().expect("the built-in CPU");
    let (device, other) = (opened(), opened());
    let ops = States::new(&device).expect("kernels");
    let batch = other.batch();
    let gradients = ops.record_gradients(&batch, &states(1));
    let refused = StatesError::from(batch.submit().expect_err("kernels of another device"));
    let source =
        refused.source().and_then(|source| source.downcast_ref::<sortie::Error>()).expect("the device's error");
    assert_eq!(source.kind(), ErrorKind::Bindings);
    assert_eq!(source.label(), Some("gradients"));
    assert_eq!(source.location().map(std::panic::Location::file), Some(file!()), "the caller's own line");
    assert!(gradients.wait().is_err());
}

/// Ours would be conflicts between invocations, and indices out of bounds: 70 states are no whole number of workgroups.
#[test]
fn no_kernel_runs_into_itself() {
    let options = DeviceOptions::default().with_check_races(true);
    let device = Device::cpu_with(options).expect("the built-in CPU");
    let ops = States::new(&device).expect("kernels");
    let many = states(70);
    let curve = Bezier { points: [many.clone(), many.clone(), many.clone(), many.clone()], t: 0.3 };
    ops.gradients(&many).expect("gradients");
    ops.cubic_bezier(&[curve]).expect("curves");
    let pairs: Vec<_> = many.iter().map(|state| [*state; 2]).collect();
    ops.state_distance(&pairs).expect("state distances");
    ops.geodesic_distance(&pairs).expect("geodesic distances");
}

#[test]
fn more_than_the_device_binds_is_too_large() {
    let noop = DeviceOptions::default().with_device("noop");
    let device = Device::open_with(noop).expect("noop");
    let ops = States::new(&device).expect("kernels");
    let limit = device.info().limits.binding_bytes;
    let count = usize::try_from(limit / 128 + 1).expect("a count");
    let error = ops.gradients(&states(count)).expect_err("too many");
    let wanted = 128 * count as u64;
    assert!(matches!(error, StatesError::Device(error) if error.kind() == ErrorKind::TooLarge { wanted, limit }));
}
