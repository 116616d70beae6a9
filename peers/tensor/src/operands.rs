//! The operands of all contenders.

/// Rows of the chain's matrix.
pub(crate) const ROWS: usize = 1024;
/// Columns of the chain's matrix, and the length of its two vectors.
pub(crate) const COLUMNS: usize = 1024;
/// The side of each of the product's matrices.
pub(crate) const SIDE: usize = 512;

/// Operands of y = g · sigmoid(g) + x with g = gelu(x · w + b).
pub(crate) struct ChainOperands {
    /// A matrix.
    pub(crate) x: Vec<f32>,
    /// A factor for each column.
    pub(crate) w: Vec<f32>,
    /// A summand for each column.
    pub(crate) b: Vec<f32>,
}

impl ChainOperands {
    /// The same numbers every time.
    pub(crate) fn new() -> Self {
        Self { x: floats(ROWS * COLUMNS, 1), w: floats(COLUMNS, 2), b: floats(COLUMNS, 3) }
    }
}

/// Operands of a product of two square matrices.
pub(crate) struct ProductOperands {
    /// The left matrix.
    pub(crate) a: Vec<f32>,
    /// The right matrix.
    pub(crate) b: Vec<f32>,
}

impl ProductOperands {
    /// The same numbers every time.
    pub(crate) fn new() -> Self {
        Self { a: floats(SIDE * SIDE, 1), b: floats(SIDE * SIDE, 2) }
    }
}

/// Numbers between -1 and 1.
fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed) % 1999) as f32 / 1000.0 - 1.0).collect()
}
