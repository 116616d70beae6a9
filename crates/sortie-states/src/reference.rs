//! Every operation in plain Rust: what the device must answer.
//!
//! Interpolation and curves are integers from the weights on, and devices answer the same bits. Gradients and distances are floats, within
//! 10⁻⁵ of these, relative to their size (see [`States`](crate::States)).

use std::f64::consts::{LN_2, TAU};

use crate::{
    error::Result,
    gradient::{Gradient, Slope},
    request::{check_ends, check_frames, check_points, check_t},
    state::{Layer, State, narrow},
    weights::Weights,
};

/// How |z| of every layer changes with ρ and θ: see [`Slope`].
#[must_use]
pub fn compute_gradients(states: &[State]) -> Vec<Gradient> {
    states.iter().map(|state| Gradient { layers: state.layers().map(Slope::of) }).collect()
}

/// States between `a` and `b`: see [`Interpolation`](crate::Interpolation).
///
/// ```
/// use sortie_states::{State, reference};
///
/// let (a, b) = ([State::from_byte(0x0e)], [State::from_byte(0x02)]);
/// assert_eq!(reference::interpolate(&a, &b, 0.5, true)?, [State::from_byte(0x00)]);
/// assert_eq!(reference::interpolate(&a, &b, 0.5, false)?, [State::from_byte(0x08)]);
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
///
/// # Errors
/// [`Lengths`](crate::StatesError::Lengths) when there are not as many, [`NotANumber`](crate::StatesError::NotANumber); both of request 0.
pub fn interpolate(a: &[State], b: &[State], t: f32, slerp: bool) -> Result<Vec<State>> {
    check_t(0, t)?;
    check_ends(0, a, b)?;
    Ok(blend([a, b], Weights::linear(t), slerp))
}

/// Frames from `a` to `b`, both included: see [`Sequence`](crate::Sequence).
///
/// ```
/// use sortie_states::{State, reference};
///
/// let frames = reference::interpolate_sequence(&[State::from_byte(0x0f)], &[State::from_byte(0x21)], 3, true)?;
/// assert_eq!(frames.concat(), [0x0f, 0x10, 0x21].map(State::from_byte));
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
///
/// # Errors
/// [`Lengths`](crate::StatesError::Lengths) when there are not as many, [`TooMany`](crate::StatesError::TooMany) of over 2²⁸ frames; both of request 0.
pub fn interpolate_sequence(a: &[State], b: &[State], frames: usize, slerp: bool) -> Result<Vec<Vec<State>>> {
    check_ends(0, a, b)?;
    let frames = check_frames(0, frames)?;
    Ok((0..frames).map(|frame| blend([a, b], Weights::frame(frame, frames), slerp)).collect())
}

/// A point of a quadratic Bézier curve for each state: see [`Bezier`](crate::Bezier).
///
/// # Errors
/// As [`interpolate`].
pub fn quadratic_bezier(points: [&[State]; 3], t: f32) -> Result<Vec<State>> {
    bezier(points, t)
}

/// A point of a cubic Bézier curve for each state: see [`Bezier`](crate::Bezier).
///
/// ```
/// use sortie_states::{State, reference};
///
/// let points = [0x00, 0x04, 0x08, 0x0c].map(|byte| [State::from_byte(byte)]);
/// let middle = reference::cubic_bezier(points.each_ref().map(|point| point.as_slice()), 0.5)?;
/// assert_eq!(middle, [State::from_byte(0x06)]); // three quarters of a turn, never back
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
///
/// # Errors
/// As [`interpolate`].
pub fn cubic_bezier(points: [&[State]; 4], t: f32) -> Result<Vec<State>> {
    bezier(points, t)
}

/// How far apart two states are as complex numbers: √Σ|za − zb|² over the layers.
///
/// ```
/// use sortie_states::{State, reference};
///
/// // 1 and −1 in each of 16 layers.
/// assert_eq!(reference::state_distance(State::from_byte(0x00), State::from_byte(0x08)), 8.0);
/// // Zero is zero, whatever its θ.
/// assert_eq!(reference::state_distance(State::from_byte(0x80), State::from_byte(0x85)), 0.0);
/// ```
#[must_use]
pub fn state_distance(a: State, b: State) -> f32 {
    let squares = a.layers().into_iter().zip(b.layers()).map(|(a, b)| {
        let (a, b) = (a.exact_z(), b.exact_z());
        (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)
    });
    narrow(squares.sum::<f64>().sqrt())
}

/// How long the way from one state to another is in log-polar coordinates, where interpolation with slerp is a straight line:
/// √Σ (ln 2/4·Δρ)² + (2π/16·Δθ)² over the layers, Δθ along the shorter arc. These are the real and imaginary part of the difference of log z.
///
/// It is a distance of coordinates: at ρ = −8 θ counts as anywhere else, and zero is no further away than its ρ says.
///
/// ```
/// use sortie_states::{State, reference};
///
/// let quarter = std::f32::consts::FRAC_PI_2;
/// // A quarter of a turn, past 0, in each of 16 layers.
/// assert_eq!(reference::geodesic_distance(State::from_byte(0x0e), State::from_byte(0x02)), 4.0 * quarter);
/// ```
#[must_use]
pub fn geodesic_distance(a: State, b: State) -> f32 {
    let squares = a.layers().into_iter().zip(b.layers()).map(|(a, b)| {
        let rho = f64::from(b.rho() - a.rho()) * LN_2 / 4.0;
        let theta = f64::from(shorter(b.theta() - a.theta())) * TAU / 16.0;
        rho.powi(2) + theta.powi(2)
    });
    narrow(squares.sum::<f64>().sqrt())
}

fn bezier<const N: usize>(points: [&[State]; N], t: f32) -> Result<Vec<State>> {
    check_t(0, t)?;
    check_points(0, points)?;
    Ok(blend(points, Weights::bezier::<N>(t), true))
}

/// A point for each state, between control points of one length.
fn blend<const N: usize>(points: [&[State]; N], weights: Weights, arc: bool) -> Vec<State> {
    let layer = |state: usize, layer: usize| {
        let [rho, theta] = point(points.map(|point| point[state].layer(layer)), weights, arc);
        Layer::new(rho, theta)
    };
    (0..points[0].len()).map(|state| State::from_layers(std::array::from_fn(|index| layer(state, index)))).collect()
}

/// ρ and unwrapped θ between the control points of one layer. `kernels/blend.wgsl` does the same.
fn point<const N: usize>(points: [Layer; N], weights: Weights, arc: bool) -> [i32; 2] {
    let (mut away, mut up, mut down) = ([0_i32; 2], [0_u32; 2], [0_u32; 2]);
    for ((last, next), weight) in points.iter().zip(&points[1..]).zip(weights.weights) {
        let turn = next.theta() - last.theta();
        away[0] += next.rho() - last.rho();
        away[1] += if arc { shorter(turn) } else { turn };
        for axis in 0..2 {
            let pull = weight * away[axis].unsigned_abs();
            if away[axis] < 0 { down[axis] += pull } else { up[axis] += pull }
        }
    }
    [nearest(points[0].rho(), up[0], down[0], weights.whole), nearest(points[0].theta(), up[1], down[1], weights.whole)]
}

/// from + (up − down) / whole, rounded half away from zero.
fn nearest(from: i32, up: u32, down: u32, whole: u32) -> i32 {
    let far = up.abs_diff(down);
    let steps = (far / whole).cast_signed();
    let twice = 2 * (far % whole);
    // Past a half it goes on to the next number; at a half only if that is away from zero.
    if up >= down {
        let at = from + steps;
        if twice > whole || (twice == whole && at >= 0) { at + 1 } else { at }
    } else {
        let at = from - steps;
        if twice > whole || (twice == whole && at <= 0) { at - 1 } else { at }
    }
}

/// The shorter way round: −8…8, half a turn either way as it was.
fn shorter(turn: i32) -> i32 {
    match turn {
        9.. => turn - 16,
        ..=-9 => turn + 16,
        _ => turn,
    }
}
