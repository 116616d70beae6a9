//! How the magnitude of each layer changes.

use bytemuck::{Pod, Zeroable};

use crate::state::{LAYERS, Layer, narrow};

/// How far to either side of ρ and θ the central differences look.
pub const EPSILON: f32 = 0.001;

/// The slopes of all layers of a state.
///
/// ```
/// use sortie_states::{State, States};
///
/// let states = States::new(&sortie::Device::cpu()?)?;
/// let gradient = states.gradients(&[State::from_byte(0x40)])?[0];
/// assert!(gradient.layers.iter().all(|slope| slope.rho > 0.34 && slope.theta == 0.0));
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Gradient {
    /// One for each layer, first to last.
    pub layers: [Slope; LAYERS],
}

/// How |z| of a layer changes with its coordinates, by central differences:
/// ∂|z|/∂ρ = (|z(ρ + ε)| − |z(ρ − ε)|) / 2ε, and ∂|z|/∂θ likewise, with ε = [`EPSILON`].
///
/// |z| is taken off the polar form, 2^(ρ/4), so θ has no part in it: its difference is that of two equal numbers, exactly 0. The other
/// one is computed as 2^(ρ/4) · (2^(ε/4) − 2^(−ε/4)) / 2ε, the same number with the second factor taken once, in f64. Taken
/// literally, f32 loses it: the two magnitudes differ by a thousandth, and an error in the last bits of each, which WGSL allows a
/// device's `exp2`, is divided by 0.002: more than 10⁻³. So computed, what differs between devices is the last bits of `exp2` itself.
///
/// At ρ = −8, where z is 0 whatever lies beside it, both are 0.
///
/// ```
/// use sortie_states::{State, reference};
///
/// let gradients = reference::compute_gradients(&[State::from_byte(0x40), State::from_byte(0x80)]);
/// let slope = gradients[0].layers[0];
/// assert!((slope.rho - 2.0 * 2_f32.ln() / 4.0).abs() < 1e-6); // |z| = 2
/// assert_eq!(slope.theta, 0.0);
/// assert_eq!(gradients[1].layers[0].rho, 0.0); // z = 0
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Slope {
    /// ∂|z|/∂ρ.
    pub rho: f32,
    /// ∂|z|/∂θ.
    pub theta: f32,
}

impl Slope {
    pub(crate) fn of(layer: Layer) -> Self {
        Self { rho: layer.magnitude() * narrow(factor()), theta: 0.0 }
    }
}

/// The central difference of 2^(ρ/4) at ρ = 0; elsewhere it is this times the magnitude.
pub(crate) fn factor() -> f64 {
    let epsilon = f64::from(EPSILON);
    ((epsilon / 4.0).exp2() - (-epsilon / 4.0).exp2()) / (2.0 * epsilon)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition as it stands, in f32.
    fn literal(layer: Layer) -> f32 {
        if layer.rho() == -8 {
            return 0.0;
        }
        let magnitude = |rho: f32| (rho / 4.0).exp2();
        let rho = narrow(layer.rho().into());
        (magnitude(rho + EPSILON) - magnitude(rho - EPSILON)) / (2.0 * EPSILON)
    }

    #[test]
    fn slopes_are_the_literal_differences_and_the_derivative() {
        for layer in (0..=255).map(Layer::from_byte) {
            let slope = Slope::of(layer);
            let derivative = f64::from(layer.magnitude()) * std::f64::consts::LN_2 / 4.0;
            assert!((f64::from(slope.rho) - derivative).abs() < 1e-6, "{layer:?}: {slope:?}, not {derivative}");
            // Half of the last bit of each magnitude and of ρ ± ε, over 0.002.
            assert!((slope.rho - literal(layer)).abs() < 3e-4, "{layer:?}: {slope:?}, not {}", literal(layer));
            assert_eq!(slope.theta, 0.0);
        }
    }
}
