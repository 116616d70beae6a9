//! Answers: the same bits as the reference for interpolation and curves, the same numbers for the rest.

use proptest::{prelude::*, test_runner::RngSeed};
use sortie_states::{Bezier, Interpolation, LAYERS, Sequence, State, reference};

use crate::on_each;

/// Devices answer floats with the last bits of `exp2` and `sqrt` as WGSL lets them, a few units of 2⁻²⁴.
const RELATIVE: f32 = 1e-5;

/// Requests in any one call.
const MAX_REQUESTS: usize = 12;

fn config() -> ProptestConfig {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if full { 400 } else { 40 },
        rng_seed: RngSeed::Fixed(0xb1e4d),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn state() -> impl Strategy<Value = State> {
    any::<[u8; LAYERS]>().prop_map(State::from_bytes)
}

/// Lists of one length each: ends or control points.
fn lists<const N: usize>() -> impl Strategy<Value = [Vec<State>; N]> {
    (0..7_usize).prop_flat_map(|len| std::array::from_fn(|_| prop::collection::vec(state(), len)))
}

fn t() -> impl Strategy<Value = f32> {
    prop_oneof![-0.2_f32..1.2, (0..=60_u16).prop_map(|k| f32::from(k) / 60.0)]
}

/// All pairs of layers there are, sixteen to a state.
fn all_pairs() -> [Vec<State>; 2] {
    let list = |byte: fn(usize) -> u8| {
        let state = |first: usize| State::from_bytes(std::array::from_fn(|layer| byte(LAYERS * first + layer)));
        (0..65_536 / LAYERS).map(state).collect()
    };
    [list(|pair| (pair / 256).to_le_bytes()[0]), list(|pair| (pair % 256).to_le_bytes()[0])]
}

#[test]
fn every_pair_of_layers_interpolates_to_the_same_bits() {
    let [a, b] = all_pairs();
    let ties = [1.0 / 30.0, 1.0 / 16.0, 0.1, 0.5, 5.0 / 6.0, 29.0 / 30.0_f32];
    let around = ties.into_iter().flat_map(|tie| [tie.next_down(), tie, tie.next_up()]);
    let ts: Vec<f32> = around.chain([0.0, 1.0, 1e-30]).collect();
    let request = |(index, t)| Interpolation { a: a.clone(), b: b.clone(), t, slerp: index % 2 == 0 };
    let doubled = ts.iter().flat_map(|t| [*t; 2]).enumerate();
    let requests: Vec<_> = doubled.map(request).collect();
    let expect = |request: &Interpolation| reference::interpolate(&request.a, &request.b, request.t, request.slerp);
    let expected: Vec<_> = requests.iter().map(|request| expect(request).expect("sense")).collect();
    on_each(|name, _, states| {
        let answers = states.interpolate(&requests).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let wrong = requests.iter().zip(&answers).zip(&expected).find(|((_, answer), expected)| answer != expected);
        assert!(wrong.is_none(), "{name}: t = {:?}", wrong.map(|((request, _), _)| (request.t, request.slerp)));
    });
}

#[test]
fn interpolations_of_any_t_mode_and_length_have_the_same_bits() {
    let request = (lists(), t(), any::<bool>()).prop_map(|([a, b], t, slerp)| Interpolation { a, b, t, slerp });
    let requests = prop::collection::vec(request, 0..MAX_REQUESTS);
    on_each(|name, _, states| {
        proptest!(config(), |(requests in &requests)| {
            let answers = states.interpolate(&requests).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
            prop_assert_eq!(answers.len(), requests.len());
            for (Interpolation { a, b, t, slerp }, answer) in requests.iter().zip(answers) {
                prop_assert_eq!(answer, reference::interpolate(a, b, *t, *slerp).expect("sense"), "{}", name);
            }
        });
    });
}

#[test]
fn sequences_have_the_same_bits() {
    let request = (lists(), 0..40_usize, any::<bool>());
    let request = request.prop_map(|([a, b], frames, slerp)| Sequence { a, b, frames, slerp });
    let requests = prop::collection::vec(request, 0..MAX_REQUESTS);
    on_each(|name, _, states| {
        proptest!(config(), |(requests in &requests)| {
            let answers = states.sequence(&requests).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
            prop_assert_eq!(answers.len(), requests.len());
            for (Sequence { a, b, frames, slerp }, answer) in requests.iter().zip(answers) {
                let expected = reference::interpolate_sequence(a, b, *frames, *slerp).expect("sense");
                prop_assert_eq!(answer, expected, "{}", name);
            }
        });
    });
}

#[test]
fn curves_have_the_same_bits() {
    let three = (lists(), t()).prop_map(|(points, t)| Bezier::<3> { points, t });
    let four = (lists(), t()).prop_map(|(points, t)| Bezier::<4> { points, t });
    let requests = (prop::collection::vec(three, 0..MAX_REQUESTS), prop::collection::vec(four, 0..MAX_REQUESTS));
    on_each(|name, _, states| {
        proptest!(config(), |((three, four) in &requests)| {
            let fail = |error| TestCaseError::fail(format!("{error:?}"));
            let (quadratic, cubic) =
                (states.quadratic_bezier(&three).map_err(fail)?, states.cubic_bezier(&four).map_err(fail)?);
            prop_assert_eq!((quadratic.len(), cubic.len()), (three.len(), four.len()));
            for (Bezier { points, t }, answer) in three.iter().zip(quadratic) {
                let points = points.each_ref().map(Vec::as_slice);
                prop_assert_eq!(answer, reference::quadratic_bezier(points, *t).expect("sense"), "{}", name);
            }
            for (Bezier { points, t }, answer) in four.iter().zip(cubic) {
                let points = points.each_ref().map(Vec::as_slice);
                prop_assert_eq!(answer, reference::cubic_bezier(points, *t).expect("sense"), "{}", name);
            }
        });
    });
}

#[test]
fn gradients_of_every_byte_are_the_derivative() {
    let all: Vec<_> = (0..=255).map(State::from_byte).collect();
    let expected = reference::compute_gradients(&all);
    on_each(|name, _, states| {
        let gradients = states.gradients(&all).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(gradients.len(), all.len());
        for ((state, got), expected) in all.iter().zip(gradients).zip(&expected) {
            let layer = state.layer(0);
            let derivative = layer.magnitude() * std::f32::consts::LN_2 / 4.0;
            for (got, expected) in got.layers.iter().zip(expected.layers) {
                assert!((got.rho - expected.rho).abs() <= RELATIVE * expected.rho, "{name}: {layer:?}: {got:?}");
                assert!((got.rho - derivative).abs() < 1e-3, "{name}: {layer:?}: {got:?}, not {derivative}");
                assert_eq!(got.theta, 0.0, "{name}: {layer:?}");
            }
        }
    });
}

#[test]
fn layers_keep_their_places_in_gradients() {
    let state = State::from_bytes(std::array::from_fn(|layer| (16 * layer).to_le_bytes()[0]));
    let many = vec![state; 70];
    let expected = reference::compute_gradients(&many);
    on_each(|name, _, states| {
        let gradients = states.gradients(&many).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        for (got, expected) in gradients.iter().zip(&expected) {
            for (got, expected) in got.layers.iter().zip(expected.layers) {
                assert!((got.rho - expected.rho).abs() <= RELATIVE * expected.rho, "{name}: {got:?}, not {expected:?}");
            }
        }
    });
}

#[test]
fn distances_are_the_reference_to_five_digits() {
    let pairs = prop::collection::vec([state(), state()], 1..300);
    on_each(|name, _, states| {
        proptest!(config(), |(pairs in &pairs)| {
            let fail = |error| TestCaseError::fail(format!("{error:?}"));
            let flat = (states.state_distance(&pairs).map_err(fail)?, states.geodesic_distance(&pairs).map_err(fail)?);
            prop_assert_eq!((flat.0.len(), flat.1.len()), (pairs.len(), pairs.len()));
            for (([a, b], flat), along) in pairs.iter().zip(flat.0).zip(flat.1) {
                let expected = [reference::state_distance(*a, *b), reference::geodesic_distance(*a, *b)];
                for (got, expected) in [flat, along].into_iter().zip(expected) {
                    prop_assert!((got - expected).abs() <= RELATIVE * expected, "{name}: {got}, not {expected}");
                }
            }
        });
    });
}

#[test]
fn no_state_is_any_way_from_itself() {
    let pairs: Vec<_> = (0..=255).map(|byte| [State::from_byte(byte); 2]).collect();
    on_each(|name, _, states| {
        assert_eq!(states.state_distance(&pairs).expect(name), [0.0; 256], "{name}");
        assert_eq!(states.geodesic_distance(&pairs).expect(name), [0.0; 256], "{name}");
    });
}
