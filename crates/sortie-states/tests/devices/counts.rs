//! What it costs: one submission and one dispatch, however many requests, and nothing for nothing.

use sortie::{Device, metrics::Metrics};
use sortie_states::{Bezier, Interpolation, Sequence, State, reference};

use crate::on_each;

/// What a device did meanwhile: submissions and dispatches.
fn spent(device: &Device, before: Metrics) -> (u64, u64) {
    let did = device.metrics() - before;
    (did.submissions, did.dispatches)
}

fn bytes(count: u8) -> Vec<State> {
    (0..count).map(State::from_byte).collect()
}

#[test]
fn requests_of_different_t_mode_and_length_share_a_dispatch() {
    let request = |index: u8| {
        let (a, b) = (bytes(index), bytes(index).into_iter().rev().collect());
        Interpolation { a, b, t: f32::from(index) / 99.0, slerp: index.is_multiple_of(3) }
    };
    let requests: Vec<_> = (0..100).map(request).collect();
    on_each(|name, device, states| {
        let before = device.metrics();
        let answers = states.interpolate(&requests).expect(name);
        assert_eq!(spent(device, before), (1, 1), "{name}");
        assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>(), "{name}");
    });
}

#[test]
fn every_kind_of_request_takes_one_submission() {
    let (a, b) = (bytes(9), bytes(9));
    let sequence = Sequence { a: a.clone(), b: b.clone(), frames: 30, slerp: true };
    let sequences = [sequence.clone(), Sequence { frames: 7, slerp: false, ..sequence }];
    let three = [0.0, 0.3].map(|t| Bezier { points: [a.clone(), b.clone(), a.clone()], t });
    let four = [0.0, 0.3].map(|t| Bezier { points: [a.clone(), b.clone(), a.clone(), b.clone()], t });
    let pairs: Vec<_> = a.iter().copied().zip(b.clone()).map(|(a, b)| [a, b]).collect();
    on_each(|name, device, states| {
        let one = |what: &str, before| assert_eq!(spent(device, before), (1, 1), "{name}: {what}");
        let before = device.metrics();
        states.gradients(&a).expect(name);
        one("gradients", before);
        let before = device.metrics();
        states.sequence(&sequences).expect(name);
        one("sequence", before);
        let before = device.metrics();
        states.quadratic_bezier(&three).expect(name);
        one("quadratic", before);
        let before = device.metrics();
        states.cubic_bezier(&four).expect(name);
        one("cubic", before);
        let before = device.metrics();
        states.state_distance(&pairs).expect(name);
        one("state distance", before);
        let before = device.metrics();
        states.geodesic_distance(&pairs).expect(name);
        one("geodesic distance", before);
    });
}

#[test]
fn ten_thousand_states_are_one_submission() {
    let many: Vec<_> = (0..10_000_u32).map(|n| State::from_byte(n.wrapping_mul(167).to_le_bytes()[0])).collect();
    let expected = reference::compute_gradients(&many);
    on_each(|name, device, states| {
        let before = device.metrics();
        let gradients = states.gradients(&many).expect(name);
        assert_eq!(spent(device, before), (1, 1), "{name}");
        let near = |(got, expected): (&sortie_states::Gradient, &sortie_states::Gradient)| {
            got.layers.iter().zip(expected.layers).all(|(got, expected)| (got.rho - expected.rho).abs() < 1e-3)
        };
        assert!(gradients.len() == many.len() && gradients.iter().zip(&expected).all(near), "{name}");
    });
}

#[test]
fn different_kinds_recorded_into_one_batch_are_one_submission() {
    let (a, b) = (bytes(5), bytes(5).into_iter().rev().collect::<Vec<_>>());
    let between = [0.2, 0.7].map(|t| Interpolation { a: a.clone(), b: b.clone(), t, slerp: true });
    let frames = [Sequence { a: a.clone(), b: b.clone(), frames: 3, slerp: true }];
    on_each(|name, device, states| {
        let before = device.metrics();
        let batch = device.batch();
        let gradients = states.record_gradients(&batch, &a);
        let between = states.record_interpolate(&batch, &between).expect(name);
        let frames = states.record_sequence(&batch, &frames).expect(name);
        let distances = states.record_geodesic_distance(&batch, &[[a[0], b[0]]]);
        batch.submit().expect(name);
        assert_eq!(spent(device, before), (1, 4), "{name}");
        let expected: Vec<_> =
            [0.2, 0.7].iter().flat_map(|t| reference::interpolate(&a, &b, *t, true).expect("sense")).collect();
        assert_eq!(between.wait().expect(name), expected, "{name}");
        let expected = reference::interpolate_sequence(&a, &b, 3, true).expect("sense").concat();
        assert_eq!(frames.wait().expect(name), expected, "{name}");
        assert_eq!((gradients.wait().expect(name).len(), distances.wait().expect(name).len()), (5, 1), "{name}");
    });
}

#[test]
fn nothing_is_answered_without_the_device() {
    on_each(|name, device, states| {
        let before = device.metrics();
        assert!(states.gradients(&[]).expect(name).is_empty());
        assert!(states.interpolate(&[]).expect(name).is_empty());
        let empty = Interpolation { t: 0.5, ..Interpolation::default() };
        assert_eq!(states.interpolate(&[empty.clone(), empty]).expect(name), [[], []]);
        assert!(states.sequence(&[]).expect(name).is_empty());
        let none = Sequence { a: bytes(2), b: bytes(2), frames: 0, slerp: true };
        let blank = Sequence { frames: 3, ..Sequence::default() };
        assert_eq!(states.sequence(&[none, blank]).expect(name), [vec![], vec![vec![]; 3]]);
        assert!(states.quadratic_bezier(&[]).expect(name).is_empty());
        assert!(states.cubic_bezier(&[]).expect(name).is_empty());
        assert!(states.state_distance(&[]).expect(name).is_empty());
        assert!(states.geodesic_distance(&[]).expect(name).is_empty());
        assert_eq!(device.metrics(), before, "{name}");
    });
}

#[test]
fn nothing_recorded_reads_as_nothing() {
    on_each(|name, device, states| {
        let before = device.metrics();
        let batch = device.batch();
        let gradients = states.record_gradients(&batch, &[]);
        let between = states.record_interpolate(&batch, &[]).expect(name);
        batch.submit().expect(name);
        assert!(gradients.wait().expect(name).is_empty() && between.wait().expect(name).is_empty(), "{name}");
        assert_eq!((device.metrics() - before).dispatches, 0, "{name}");
    });
}
