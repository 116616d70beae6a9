//! The operations that take parameters.

use crate::{
    error::{Result, StatesError},
    state::State,
    weights::Weights,
};

/// States between `a` and `b`, one for each pair.
///
/// For each layer ρ is ρa + t·(ρb − ρa), rounded half away from zero, and θ is θa + t·Δ, rounded likewise and taken mod 16. Without `slerp`
/// Δ = θb − θa; with it Δ goes along the shorter arc, past 0 where that is shorter; half a turn is gone the way it is without.
///
/// Rounded is the exact real number, for every `f32` that `t` can be: it depends on nothing but where t lies between fractions whose
/// denominators are at most 30, so integers decide it, on the host and on every device alike. Neither ρ = −8, where z is 0, nor the unwrapped
/// θ, which the rounding looks at, is treated in any other way.
///
/// ```
/// use sortie_states::{Interpolation, Layer, State, States};
///
/// # let states = States::new(&sortie::Device::cpu()?)?;
/// let between = |a: (i32, i32), b: (i32, i32), t, slerp| {
///     let state = |(rho, theta)| vec![State::from_layers([Layer::new(rho, theta); 16])];
///     let answer = states.interpolate(&[Interpolation { a: state(a), b: state(b), t, slerp }])?;
///     let layer = answer[0][0].layer(0);
///     Ok::<_, sortie_states::StatesError>((layer.rho(), layer.theta()))
/// };
/// assert_eq!(between((-4, 2), (-1, 5), 0.5, false)?, (-3, 4)); // −2.5 and 3.5: away from zero
/// assert_eq!(between((0, 1), (0, 14), 0.5, false)?, (0, 8));   // 7.5
/// assert_eq!(between((0, 1), (0, 14), 0.5, true)?, (0, 15));   // 1 − 1.5 = −0.5, rounded to −1
/// assert_eq!(between((0, 12), (0, 4), 0.5, true)?, (0, 8));    // half a turn, as without slerp
/// assert_eq!(between((0, 12), (7, 4), 9.0, true)?, (7, 4));    // t is clamped
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpolation {
    /// Where it is at t = 0.
    pub a: Vec<State>,
    /// Where it is at t = 1; as many as `a`.
    pub b: Vec<State>,
    /// How far from `a` to `b`, clamped to 0…1; not NaN.
    pub t: f32,
    /// Whether θ goes along the shorter arc.
    pub slerp: bool,
}

/// An animation from `a` to `b`: evenly spaced frames, both ends included.
///
/// Frame k of n is the [`Interpolation`] at t = k/(n − 1), as a fraction, which no `f32` need be. One frame is `a`; no frames are none.
///
/// ```
/// use sortie_states::{Sequence, State, States};
///
/// # let states = States::new(&sortie::Device::cpu()?)?;
/// let (a, b) = (vec![State::from_byte(0x00)], vec![State::from_byte(0x33)]);
/// let frames = &states.sequence(&[Sequence { a, b, frames: 4, slerp: true }])?[0];
/// assert_eq!(frames.concat(), [0x00, 0x11, 0x22, 0x33].map(State::from_byte));
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// The first frame.
    pub a: Vec<State>,
    /// The last frame; as many as `a`.
    pub b: Vec<State>,
    /// How many.
    pub frames: usize,
    /// Whether θ goes along the shorter arc.
    pub slerp: bool,
}

/// A point of the Bézier curve with `N` control points, for each state: 3 make a quadratic one, 4 a cubic one.
///
/// ρ and θ of each layer are taken as real numbers, θ unwrapped from the first control point on, along the shorter arc from each to the next
/// (half a turn as in an [`Interpolation`] without slerp). The point of the curve in these coordinates, which is what de Casteljau's construction
/// gives, is rounded once, half away from zero; θ then mod 16.
///
/// Bernstein's weights of the control points are taken in f64 and rounded to multiples of 2⁻²⁶; the rest is integers, on the host and
/// on every device alike. So the answer is the rounded real number unless that lies within 4·10⁻⁷ of a half; where `t` is a multiple of 1/256 (of 1/8192 for
/// three control points) it always is.
///
/// ```
/// use sortie_states::{Bezier, State, States};
///
/// # let states = States::new(&sortie::Device::cpu()?)?;
/// let points = [0x00, 0x4e, 0x0c].map(|byte| vec![State::from_byte(byte)]); // θ: 0, −2, −4
/// let middle = states.quadratic_bezier(&[Bezier { points, t: 0.5 }])?;
/// assert_eq!(middle, [[State::from_byte(0x2e)]]);
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bezier<const N: usize> {
    /// The control points, as many states each.
    pub points: [Vec<State>; N],
    /// How far along the curve, clamped to 0…1; not NaN.
    pub t: f32,
}

impl Interpolation {
    pub(crate) fn check(&self, request: usize) -> Result<()> {
        check_t(request, self.t)?;
        check_ends(request, &self.a, &self.b)
    }
}

impl Sequence {
    /// How many frames, if all is well.
    pub(crate) fn check(&self, request: usize) -> Result<u32> {
        check_ends(request, &self.a, &self.b)?;
        check_frames(request, self.frames)
    }
}

impl<const N: usize> Bezier<N> {
    pub(crate) fn check(&self, request: usize) -> Result<()> {
        check_t(request, self.t)?;
        check_points(request, self.points.each_ref().map(Vec::as_slice))
    }
}

pub(crate) fn check_t(request: usize, t: f32) -> Result<()> {
    if t.is_nan() { Err(StatesError::NotANumber { request }) } else { Ok(()) }
}

pub(crate) fn check_ends(request: usize, a: &[State], b: &[State]) -> Result<()> {
    check_length(request, a, b, "b")
}

pub(crate) fn check_points<const N: usize>(request: usize, points: [&[State]; N]) -> Result<()> {
    // As many as a cubic curve has.
    const NAMES: [&str; 4] = ["points[0]", "points[1]", "points[2]", "points[3]"];
    let name = |index: usize| NAMES.get(index).copied().unwrap_or("points[4] or a later one");
    let mut numbered = points.iter().enumerate();
    numbered.try_for_each(|(index, point)| check_length(request, points[0], point, name(index)))
}

fn check_length(request: usize, first: &[State], other: &[State], which: &'static str) -> Result<()> {
    let (first, other) = (first.len(), other.len());
    if first == other { Ok(()) } else { Err(StatesError::Lengths { request, first, other, which }) }
}

pub(crate) fn check_frames(request: usize, frames: usize) -> Result<u32> {
    let limit = Weights::MAX_FRAMES;
    let too_many = StatesError::TooMany { request, limit };
    u32::try_from(frames).ok().filter(|_| frames <= limit).ok_or(too_many)
}
