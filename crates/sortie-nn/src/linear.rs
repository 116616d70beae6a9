//! Products with a matrix of weights.

use sortie::Tensor;

use crate::{
    error::{Error, Result},
    param::Param,
    params::Params,
    weight::Weight,
};

/// x · wᵀ + b along the last axis.
///
/// ```
/// use sortie::Device;
/// use sortie_nn::{Linear, Param};
///
/// # fn main() -> sortie_nn::Result<()> {
/// let device = Device::cpu()?;
/// let weight = Param::new(device.upload(&[1.0_f32, 2.0])?, [1, 2])?; // [outputs, inputs]
/// let linear = Linear::of(weight, None)?;
/// let batch = device.batch();
/// let y = linear.forward(batch.tensor_from(&[3.0, 4.0], [1, 2])).read();
/// batch.submit()?;
/// assert_eq!(y.wait()?, [11.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Linear<W = f32> {
    weight: Param<W>,
    bias: Option<Param<W>>,
}

impl<W: Weight> Linear<W> {
    /// The parameters `weight` of shape `[outputs, inputs]` and `bias`.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn new(params: &Params<'_>, [inputs, outputs]: [usize; 2]) -> Result<Self> {
        Ok(Self { weight: params.param("weight", [outputs, inputs])?, bias: Some(params.param("bias", [outputs])?) })
    }

    /// The parameter `weight` of shape `[outputs, inputs]`.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn without_bias(params: &Params<'_>, [inputs, outputs]: [usize; 2]) -> Result<Self> {
        Ok(Self { weight: params.param("weight", [outputs, inputs])?, bias: None })
    }

    /// A weight of shape `[outputs, inputs]`, and a bias of shape `[outputs]`.
    ///
    /// # Errors
    /// [`Error::Layer`] for other shapes.
    pub fn of(weight: Param<W>, bias: Option<Param<W>>) -> Result<Self> {
        let (of_weight, of_bias) = (weight.shape(), bias.as_ref().map(Param::shape));
        let fits = |outputs: usize| of_bias.is_none_or(|bias| bias == [outputs]);
        if !matches!(of_weight, [outputs, _] if fits(*outputs)) {
            return Err(Error::Layer(format!(
                "a linear layer has a weight of [outputs, inputs] and a bias of [outputs], not {of_weight:?} and {of_bias:?}"
            )));
        }
        Ok(Self { weight, bias })
    }

    /// Length of the last axis of its input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.weight.shape()[1]
    }

    /// Length of the last axis of its output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.weight.shape()[0]
    }

    /// Records the product.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let batch = x.batch();
        let y = x.matmul(self.weight.wide(batch).transpose());
        match &self.bias {
            Some(bias) => y + bias.wide(batch),
            None => y,
        }
    }
}
