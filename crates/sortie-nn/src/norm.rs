//! Normalisation along the last axis.

use sortie::Tensor;

use crate::{error::Result, param::Param, params::Params, weight::Weight};

/// (x − mean) ∕ √(variance + epsilon) · weight + bias.
#[derive(Clone, Debug)]
pub struct LayerNorm<W = f32> {
    weight: Param<W>,
    bias: Param<W>,
    epsilon: f32,
}

/// x ∕ √(mean of squares + epsilon) · weight.
#[derive(Clone, Debug)]
pub struct RmsNorm<W = f32> {
    weight: Param<W>,
    epsilon: f32,
}

impl<W: Weight> LayerNorm<W> {
    /// The parameters `weight` and `bias`.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn new(params: &Params<'_>, width: usize, epsilon: f32) -> Result<Self> {
        Ok(Self { weight: params.param("weight", [width])?, bias: params.param("bias", [width])?, epsilon })
    }

    /// Records the normalisation.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let batch = x.batch();
        x.layer_norm(self.epsilon) * self.weight.wide(batch) + self.bias.wide(batch)
    }
}

impl<W: Weight> RmsNorm<W> {
    /// The parameter `weight`.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn new(params: &Params<'_>, width: usize, epsilon: f32) -> Result<Self> {
        Ok(Self { weight: params.param("weight", [width])?, epsilon })
    }

    /// Records the normalisation.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        x.rms_norm(self.epsilon) * self.weight.wide(x.batch())
    }
}
