//! Deterministic data: a case is the same on every machine and in every run.

/// A small generator of its own, so that inputs do not change with a dependency.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5027_1e00)
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(end)) >> 32) as u32
    }

    pub(crate) fn float(&mut self, low: f32, high: f32) -> f32 {
        let unit = f64::from(self.word()) / f64::from(u32::MAX);
        (f64::from(low) + (f64::from(high) - f64::from(low)) * unit) as f32
    }
}

/// Words over their whole range, with the values at which arithmetic breaks mixed in.
pub(crate) fn words(seed: u64, len: usize) -> Vec<u32> {
    const EDGES: [u32; 12] =
        [0, 1, 2, 31, 32, 33, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff, 0xffff_fffe, 0x0001_0000];
    let mut dice = Dice::new(seed);
    (0..len).map(|_| if dice.below(3) == 0 { EDGES[dice.below(12) as usize] } else { dice.word() }).collect()
}

/// Words under `end`.
pub(crate) fn below(seed: u64, len: usize, end: u32) -> Vec<u32> {
    let mut dice = Dice::new(seed);
    (0..len).map(|_| dice.below(end)).collect()
}

/// Floats between two bounds.
pub(crate) fn floats(seed: u64, len: usize, low: f32, high: f32) -> Vec<f32> {
    let mut dice = Dice::new(seed);
    (0..len).map(|_| dice.float(low, high)).collect()
}
