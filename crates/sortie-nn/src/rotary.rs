//! Rotary position embedding: pairs of elements are rotated by an angle that grows with their position.

use sortie::{Device, Tensor};

use crate::{
    error::{Error, Result},
    param::Param,
};

/// Rotary position embedding, as in Llama: element `i` of a head pairs with element `i + width / 2`.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Cosines and sines of each position: `[positions, width / 2]`.
    tables: [Param<f32>; 2],
}

impl Rotary {
    /// For heads of `width` elements and positions below `positions`. The angle of pair `i` is
    /// position · base^(−2 i ∕ width); `base` is usually 10,000.
    ///
    /// # Errors
    /// [`Error::Layer`] if the width is odd or 0; [`Error::Device`].
    pub fn new(device: &Device, positions: usize, width: usize, base: f64) -> Result<Self> {
        if width == 0 || !width.is_multiple_of(2) {
            return Err(Error::Layer(format!("rotary embedding of heads of {width} elements; it rotates pairs")));
        }
        let pairs = width / 2;
        let angle = |at: usize| (at / pairs) as f64 * base.powf(-2.0 * (at % pairs) as f64 / width as f64);
        let table = |f: fn(f64) -> f64| -> Result<Param<f32>> {
            let values: Vec<f32> = (0..positions * pairs).map(|at| f(angle(at)) as f32).collect();
            Param::new(device.upload(&values)?, [positions, pairs])
        };
        Ok(Self { tables: [table(f64::cos)?, table(f64::sin)?] })
    }

    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.tables[0].shape()[0]
    }

    /// Records the rotation of `x`, of shape `[rows, positions, heads, width]`, by `positions`, of shape `[positions]`.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>, positions: Tensor<'b, u32>) -> Tensor<'b, f32> {
        let shape = x.shape();
        let ([rows, length, heads, width], pairs) = (dims(&shape), self.tables[0].shape()[1]);
        let of = |table: &Param<f32>| table.tensor(x.batch()).gather(positions).reshape([length, 1, pairs]);
        let [cos, sin] = self.tables.each_ref().map(of);
        let half = |range| x.slice(&[0..rows, 0..length, 0..heads, range]);
        let (one, other) = (half(0..pairs), half(pairs..width));
        (one * cos - other * sin).concat(&[other * cos + one * sin], 3)
    }
}

/// The four lengths of a shape; those of another rank are refused by the operations that follow.
pub(crate) fn dims(shape: &[usize]) -> [usize; 4] {
    std::array::from_fn(|at| shape.get(at).copied().unwrap_or(1))
}
