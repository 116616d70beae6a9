//! How far along each control point pulls, in integers.
//!
//! A point is p₀ + Σ wᵢ·(pᵢ − p₀) / whole. Reference and devices get the same weights and add them up as integers, so no device's way with floats shows.
//!
//! Of an interpolation the result is that of real numbers for every `f32`. It changes only where t passes a half step of |Δ| ≤ 15, at odd/2|Δ|. The first of
//! these is 1/30; from 1/32 on every `f32` is a multiple of 2⁻²⁸, and what lies below 1/32 stays there.

/// 15 · 2²⁸ fits in a `u32`.
const LINEAR: u32 = 1 << 28;

/// Three shorter arcs make 24 · 2²⁶, which fits in a `u32`.
const CURVED: u32 = 1 << 26;

/// The weights of all control points but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) weights: [u32; 3],
    /// What a weight of one is.
    pub(crate) whole: u32,
}

impl Weights {
    /// Frames of a sequence, at most: with more of them fractions would be too fine.
    pub(crate) const MAX_FRAMES: usize = LINEAR as usize;

    /// Of an interpolation at t.
    pub(crate) fn linear(t: f32) -> Self {
        Self { weights: [fixed(f64::from(t.clamp(0.0, 1.0)), LINEAR), 0, 0], whole: LINEAR }
    }

    /// Of one of `frames` frames, at most [`Weights::MAX_FRAMES`].
    pub(crate) fn frame(frame: u32, frames: u32) -> Self {
        Self { weights: [frame, 0, 0], whole: frames.saturating_sub(1).max(1) }
    }

    /// Of a point of a curve with `N` control points, 3 or 4.
    pub(crate) fn bezier<const N: usize>(t: f32) -> Self {
        const { assert!(N == 3 || N == 4, "quadratic or cubic") };
        let t = f64::from(t.clamp(0.0, 1.0));
        let u = 1.0 - t;
        let weights = if N == 3 { [2.0 * t * u, t * t, 0.0] } else { [3.0 * t * u * u, 3.0 * t * t * u, t * t * t] };
        Self { weights: weights.map(|weight| fixed(weight, CURVED)), whole: CURVED }
    }
}

/// The nearest multiple of 1/whole to a number from 0 to 1.
fn fixed(weight: f64, whole: u32) -> u32 {
    (weight * f64::from(whole)).round() as u32
}
