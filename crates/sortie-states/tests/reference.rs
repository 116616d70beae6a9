//! The reference against the definitions, in f64 and in exact fractions.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

use proptest::{prelude::*, test_runner::RngSeed};
use sortie_states::{LAYERS, Layer, State, StatesError, reference};

fn config() -> ProptestConfig {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if full { 10_000 } else { 1_000 },
        rng_seed: RngSeed::Fixed(0x57_a7e5),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn state() -> impl Strategy<Value = State> {
    any::<[u8; LAYERS]>().prop_map(State::from_bytes)
}

/// Where rounding is decided: odd/2d, or next to it.
fn near_a_tie() -> impl Strategy<Value = f32> {
    (1..=15_u16, 0..15_u16, -2..=2_i32).prop_map(|(steps, step, bits)| {
        let tie = f32::from(2 * (step % steps) + 1) / f32::from(2 * steps);
        f32::from_bits(tie.to_bits().saturating_add_signed(bits))
    })
}

fn t() -> impl Strategy<Value = f32> {
    prop_oneof![
        0_f32..1.0,
        near_a_tie(),
        (0..=1024_u16).prop_map(|k| f32::from(k) / 1024.0),
        (0..1_u32 << 30).prop_map(f32::from_bits),
        prop::sample::select(vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE,
            1e-45
        ]),
    ]
}

fn turn(a: Layer, b: Layer, slerp: bool) -> i32 {
    let turn = b.theta() - a.theta();
    if slerp && turn.abs() > 8 { turn - 16 * turn.signum() } else { turn }
}

/// ρ and θ before they are rounded. In f64 they are exact, but for t too small to matter.
fn between(a: Layer, b: Layer, t: f32, slerp: bool) -> [f64; 2] {
    let t = f64::from(t.clamp(0.0, 1.0));
    [f64::from(a.rho()) + t * f64::from(b.rho() - a.rho()), f64::from(a.theta()) + t * f64::from(turn(a, b, slerp))]
}

fn rounded([rho, theta]: [f64; 2]) -> Layer {
    Layer::new(rho.round() as i32, theta.round() as i32)
}

fn is_tie(x: f64) -> bool {
    (x - x.floor() - 0.5).abs() == 0.0
}

/// numerator/denominator rounded half away from zero.
fn nearest(numerator: i64, denominator: i64) -> i32 {
    let magnitude = (2 * numerator.abs() + denominator) / (2 * denominator);
    i32::try_from(magnitude * numerator.signum()).expect("a coordinate")
}

/// De Casteljau's construction, in f64: exact where t is a multiple of 1/256.
fn casteljau(points: &[Layer], t: f32) -> [f64; 2] {
    let t = f64::from(t.clamp(0.0, 1.0));
    let mut theta = points[0].theta();
    let mut at = vec![[f64::from(points[0].rho()), f64::from(theta)]];
    for pair in points.windows(2) {
        theta += turn(pair[0], pair[1], true);
        at.push([f64::from(pair[1].rho()), f64::from(theta)]);
    }
    while at.len() > 1 {
        let half = |pair: &[[f64; 2]]| std::array::from_fn(|axis| pair[0][axis] * (1.0 - t) + pair[1][axis] * t);
        at = at.windows(2).map(half).collect();
    }
    at[0]
}

fn check_curve(points: &[State], result: State, t: f32, exact: bool) -> Result<(), TestCaseError> {
    for layer in 0..LAYERS {
        let points: Vec<_> = points.iter().map(|state| state.layer(layer)).collect();
        let real = casteljau(&points, t);
        let (expected, got) = (rounded(real), result.layer(layer));
        // Three weights, each off by 2⁻²⁷ at most, times the way to their control points: 8 + 16 + 24.
        let undecided = real.iter().any(|x| (x - x.floor() - 0.5).abs() < 4e-7) && !exact;
        prop_assert!(undecided || got == expected, "{points:?} at {t}: {got:?}, not {expected:?} of {real:?}");
    }
    Ok(())
}

#[test]
fn bytes_survive() {
    proptest!(config(), |(bytes in any::<[u8; LAYERS]>())| {
        let state = State::from_bytes(bytes);
        prop_assert_eq!(state.to_bytes(), bytes);
        prop_assert_eq!(State::from_layers(state.layers()), state);
    });
}

#[test]
fn interpolation_is_the_rounded_real_number_for_every_t() {
    proptest!(config(), |(a in state(), b in state(), t in t(), slerp in any::<bool>())| {
        let result = reference::interpolate(&[a], &[b], t, slerp).expect("a request that makes sense");
        for layer in 0..LAYERS {
            let (a, b) = (a.layer(layer), b.layer(layer));
            prop_assert_eq!(result[0].layer(layer), rounded(between(a, b, t, slerp)), "{:?} {:?} {}", a, b, t);
        }
    });
}

#[test]
fn interpolation_starts_at_a_and_ends_at_b() {
    proptest!(config(), |(a in state(), b in state(), slerp in any::<bool>())| {
        for (t, end) in [(0.0, a), (-3.0, a), (1.0, b), (1.5, b)] {
            prop_assert_eq!(reference::interpolate(&[a], &[b], t, slerp).expect("sense"), [end]);
        }
    });
}

/// The way back is the same, half a turn included; only a tie on the unwrapped θ may round to the other side, past zero.
#[test]
fn interpolation_is_the_same_from_either_end() {
    proptest!(config(), |(a in state(), b in state(), k in 0..=1024_u16, slerp in any::<bool>())| {
        let t = f32::from(k) / 1024.0;
        let there = reference::interpolate(&[a], &[b], t, slerp).expect("sense")[0];
        let back = reference::interpolate(&[b], &[a], 1.0 - t, slerp).expect("sense")[0];
        for layer in 0..LAYERS {
            let (there, back) = (there.layer(layer), back.layer(layer));
            prop_assert_eq!(there.rho(), back.rho());
            if !slerp || !is_tie(between(a.layer(layer), b.layer(layer), t, slerp)[1]) {
                prop_assert_eq!(there.theta(), back.theta());
            }
        }
    });
}

#[test]
fn half_a_turn_is_interpolated_as_without_slerp() {
    for theta in 0..16 {
        let ends = [theta, theta + 8].map(|theta| [State::from_layers([Layer::new(0, theta); LAYERS])]);
        for t in [0.1, 0.3, 0.5, 0.9] {
            let with = |slerp| reference::interpolate(&ends[0], &ends[1], t, slerp).expect("sense");
            assert_eq!(with(true), with(false));
        }
    }
}

#[test]
fn frames_are_exact_fractions_and_include_the_ends() {
    proptest!(config(), |(a in state(), b in state(), frames in 2..70_usize, slerp in any::<bool>())| {
        let sequence = reference::interpolate_sequence(&[a], &[b], frames, slerp).expect("sense");
        prop_assert_eq!(sequence.len(), frames);
        prop_assert_eq!((sequence[0][0], sequence[frames - 1][0]), (a, b));
        let last = i64::try_from(frames - 1).expect("few");
        for (k, frame) in (0..).zip(&sequence) {
            for layer in 0..LAYERS {
                let (a, b) = (a.layer(layer), b.layer(layer));
                let along = |from: i32, way: i32| nearest(i64::from(from) * last + i64::from(way) * k, last);
                let expected = Layer::new(along(a.rho(), b.rho() - a.rho()), along(a.theta(), turn(a, b, slerp)));
                prop_assert_eq!(frame[0].layer(layer), expected);
            }
        }
    });
}

#[test]
fn sequences_may_have_one_frame_or_none() {
    let (a, b) = ([State::from_byte(0x12)], [State::from_byte(0x34)]);
    assert_eq!(reference::interpolate_sequence(&a, &b, 0, true).expect("sense"), Vec::<Vec<State>>::new());
    assert_eq!(reference::interpolate_sequence(&a, &b, 1, true).expect("sense"), [a.to_vec()]);
    assert_eq!(reference::interpolate_sequence(&a, &b, 2, true).expect("sense"), [a.to_vec(), b.to_vec()]);
}

#[test]
fn curves_are_the_rounded_real_numbers_unless_these_are_next_to_a_half() {
    proptest!(config(), |(points in any::<[[u8; LAYERS]; 4]>(), t in t())| {
        let points = points.map(State::from_bytes);
        let [a, b, c, d] = points.each_ref().map(std::slice::from_ref);
        check_curve(&points[..3], reference::quadratic_bezier([a, b, c], t).expect("sense")[0], t, false)?;
        check_curve(&points, reference::cubic_bezier([a, b, c, d], t).expect("sense")[0], t, false)?;
    });
}

#[test]
fn curves_are_exact_at_multiples_of_1_in_256() {
    proptest!(config(), |(points in any::<[[u8; LAYERS]; 4]>(), k in 0..=256_u16)| {
        let (points, t) = (points.map(State::from_bytes), f32::from(k) / 256.0);
        let [a, b, c, d] = points.each_ref().map(std::slice::from_ref);
        check_curve(&points[..3], reference::quadratic_bezier([a, b, c], t).expect("sense")[0], t, true)?;
        check_curve(&points, reference::cubic_bezier([a, b, c, d], t).expect("sense")[0], t, true)?;
    });
}

#[test]
fn distances_are_symmetric_and_no_detour_is_shorter() {
    proptest!(config(), |(a in state(), b in state(), c in state())| {
        for distance in [reference::state_distance, reference::geodesic_distance] {
            prop_assert_eq!(distance(a, b), distance(b, a));
            prop_assert_eq!(distance(a, a), 0.0);
            // f32 has seven digits, and distances are below 30.
            prop_assert!(distance(a, c) <= distance(a, b) + distance(b, c) + 1e-5);
        }
    });
}

#[test]
fn lengths_and_t_are_checked() {
    let (one, two) = ([State::default()], [State::default(); 2]);
    let lengths = reference::interpolate(&one, &two, 0.5, true);
    assert!(matches!(lengths, Err(StatesError::Lengths { request: 0, first: 1, other: 2, which: "b" })), "{lengths:?}");
    let lengths = reference::cubic_bezier([&two, &two, &two, &one], 0.5);
    assert!(
        matches!(lengths, Err(StatesError::Lengths { request: 0, first: 2, other: 1, which: "points[3]" })),
        "{lengths:?}"
    );
    let t = reference::interpolate(&one, &one, f32::NAN, true);
    assert!(matches!(t, Err(StatesError::NotANumber { request: 0 })), "{t:?}");
    let t = reference::quadratic_bezier([&one, &one, &one], f32::NAN);
    assert!(matches!(t, Err(StatesError::NotANumber { request: 0 })), "{t:?}");
    let frames = reference::interpolate_sequence(&one, &one, usize::MAX, true);
    assert!(matches!(frames, Err(StatesError::TooMany { request: 0, .. })), "{frames:?}");
}
