//! A state and its layers.

use std::f64::consts::TAU;

use bytemuck::{Pod, Zeroable};

/// Layers of a state.
pub const LAYERS: usize = 16;

/// Sixteen complex numbers in log-polar form, a byte each.
///
/// ```
/// use sortie_states::{Layer, State};
///
/// let state = State::from_bytes([0x80, 0x00, 0x04, 0xc8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f]);
/// assert_eq!(state.layer(3), Layer::new(-4, 8)); // 2^−1, turned by half: −0.5
/// assert_eq!(State::from_layers(state.layers()), state);
/// assert_eq!(state.to_bytes()[15], 0x7f);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct State([u8; LAYERS]);

impl State {
    /// A state whose 16 layers are all this byte.
    ///
    /// ```
    /// use sortie_states::State;
    ///
    /// assert_eq!(State::from_byte(0x2b), State::from_bytes([0x2b; 16]));
    /// ```
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        Self([byte; LAYERS])
    }

    /// A state of these layers, first to last. Every byte is a layer.
    ///
    /// ```
    /// use sortie_states::State;
    ///
    /// let bytes = std::array::from_fn(|layer| 16 * layer as u8);
    /// assert_eq!(State::from_bytes(bytes).to_bytes(), bytes);
    /// ```
    #[must_use]
    pub const fn from_bytes(bytes: [u8; LAYERS]) -> Self {
        Self(bytes)
    }

    /// The layers as bytes, first to last.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; LAYERS] {
        self.0
    }

    /// A state of these layers.
    #[must_use]
    pub fn from_layers(layers: [Layer; LAYERS]) -> Self {
        Self(layers.map(Layer::to_byte))
    }

    /// All layers.
    #[must_use]
    pub fn layers(self) -> [Layer; LAYERS] {
        self.0.map(Layer::from_byte)
    }

    /// One layer.
    ///
    /// # Panics
    /// When there is none of that number: there are [`LAYERS`].
    #[must_use]
    pub fn layer(self, index: usize) -> Layer {
        Layer::from_byte(self.0[index])
    }
}

/// One complex number in log-polar form.
///
/// ```
/// use sortie_states::Layer;
///
/// let layer = Layer::from_byte(0xf4); // ρ = −1, θ = 4
/// assert_eq!((layer.rho(), layer.theta()), (-1, 4));
/// assert_eq!(layer.magnitude(), 0.8408964); // 2^(−1/4)
/// assert_eq!(Layer::new(4, 8).z(), [-2.0, 0.0]);
/// assert_eq!(Layer::new(-8, 3).z(), [0.0, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layer {
    rho: i8,
    theta: u8,
}

impl Layer {
    /// A layer of this ρ, clamped to −8…7, and this θ, mod 16.
    ///
    /// ```
    /// use sortie_states::Layer;
    ///
    /// assert_eq!(Layer::new(9, -1), Layer::new(7, 15));
    /// ```
    #[must_use]
    pub fn new(rho: i32, theta: i32) -> Self {
        let narrow = "fits in four bits";
        Self {
            rho: i8::try_from(rho.clamp(-8, 7)).expect(narrow),
            theta: u8::try_from(theta.rem_euclid(16)).expect(narrow),
        }
    }

    /// The layer that a byte is: ρ in the high nibble, in two's complement, θ in the low one.
    #[must_use]
    pub fn from_byte(byte: u8) -> Self {
        Self { rho: byte.cast_signed() >> 4, theta: byte & 15 }
    }

    /// The byte that it is.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        self.rho.cast_unsigned() << 4 | self.theta
    }

    /// ρ: quarters of an octave of magnitude, −8…7.
    #[must_use]
    pub fn rho(self) -> i32 {
        self.rho.into()
    }

    /// θ: sixteenths of a turn, 0…15.
    #[must_use]
    pub fn theta(self) -> i32 {
        self.theta.into()
    }

    /// |z|: 2^(ρ/4), and 0 at ρ = −8.
    #[must_use]
    pub fn magnitude(self) -> f32 {
        narrow(self.exact_magnitude())
    }

    /// z, as its real and imaginary part.
    #[must_use]
    pub fn z(self) -> [f32; 2] {
        self.exact_z().map(narrow)
    }

    pub(crate) fn exact_z(self) -> [f64; 2] {
        let magnitude = self.exact_magnitude();
        [magnitude * cosine(self.theta()), magnitude * cosine(self.theta() - 4)]
    }

    fn exact_magnitude(self) -> f64 {
        if self.rho == -8 { 0.0 } else { (f64::from(self.rho) / 4.0).exp2() }
    }
}

/// The cosine of an angle in sixteenths of a turn; exactly zero at a quarter.
fn cosine(theta: i32) -> f64 {
    if theta.rem_euclid(8) == 4 { 0.0 } else { (f64::from(theta) * TAU / 16.0).cos() }
}

/// Rounded to the nearest.
pub(crate) fn narrow(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_layer_and_every_layer_a_byte() {
        for byte in 0..=255 {
            let layer = Layer::from_byte(byte);
            assert_eq!(layer.to_byte(), byte);
            assert_eq!(Layer::new(layer.rho(), layer.theta()), layer);
        }
    }

    #[test]
    fn nibbles_at_their_ends() {
        let coordinates = |byte| (Layer::from_byte(byte).rho(), Layer::from_byte(byte).theta());
        assert_eq!(coordinates(0x80), (-8, 0));
        assert_eq!(coordinates(0x7f), (7, 15));
        assert_eq!(coordinates(0xf0), (-1, 0));
        assert_eq!(coordinates(0x0f), (0, 15));
    }

    #[test]
    fn z_turns_by_a_sixteenth_and_grows_by_a_quarter_of_an_octave() {
        let near =
            |one: [f32; 2], other: [f32; 2]| one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-6);
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert!(near(Layer::new(0, 2).z(), [half, half]));
        assert!(near(Layer::new(0, 6).z(), [-half, half]));
        assert_eq!(Layer::new(4, 12).z(), [0.0, -2.0]);
        assert_eq!(Layer::new(-7, 0).magnitude(), 2_f32.powf(-1.75));
    }
}
