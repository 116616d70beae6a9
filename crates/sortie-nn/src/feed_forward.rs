//! The two or three products after attention.

use sortie::Tensor;

use crate::{
    config::Activation,
    error::{Error, Result},
    linear::Linear,
    weight::Weight,
};

/// Each position by itself: widened, activated, and back.
#[derive(Clone, Debug)]
pub struct FeedForward<W = f32> {
    up: Linear<W>,
    gate: Option<Linear<W>>,
    down: Linear<W>,
    activation: Activation,
}

impl<W: Weight> FeedForward<W> {
    /// down(activation(up(x))).
    ///
    /// # Errors
    /// [`Error::Layer`] if `down` does not take what `up` makes.
    pub fn new(up: Linear<W>, down: Linear<W>, activation: Activation) -> Result<Self> {
        fits(&up, &down)?;
        Ok(Self { up, gate: None, down, activation })
    }

    /// down(activation(gate(x)) · up(x)), as in Llama with [`Activation::Silu`].
    ///
    /// # Errors
    /// [`Error::Layer`] if `down` does not take what `up` and `gate` make.
    pub fn gated(gate: Linear<W>, up: Linear<W>, down: Linear<W>, activation: Activation) -> Result<Self> {
        fits(&up, &down)?;
        fits(&gate, &down)?;
        Ok(Self { up, gate: Some(gate), down, activation })
    }

    /// Records it.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let up = self.up.forward(x);
        let inner = match &self.gate {
            Some(gate) => self.activation.of(gate.forward(x)) * up,
            None => self.activation.of(up),
        };
        self.down.forward(inner)
    }
}

fn fits<W: Weight>(up: &Linear<W>, down: &Linear<W>) -> Result<()> {
    if up.outputs() == down.inputs() {
        return Ok(());
    }
    Err(Error::Layer(format!(
        "a feed-forward layer whose first product makes {} and whose last takes {}",
        up.outputs(),
        down.inputs()
    )))
}
