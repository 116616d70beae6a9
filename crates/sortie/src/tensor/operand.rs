//! Arguments of elementwise operations: a tensor or a number.

use half::f16;
use sortie_plan::TensorRef;

use super::{Element, Shape, Tensor};
use crate::batch::Batch;

/// The other side of an elementwise operation: a [`Tensor`] or a number. Made by `into`, usually implicitly.
///
/// The numbers of an `f32` or `f16` tensor are `f32` (an `f16` operation computes in `f32` and rounds its result), those
/// of a `u32` or `i32` tensor have its own type.
///
/// ```
/// use sortie::{Tensor, tensor::{Element, Operand}};
///
/// /// Functions of your own can take both, too.
/// fn at_most<'b, T: Element>(x: Tensor<'b, T>, limit: impl Into<Operand<'b, T>>) -> Tensor<'b, T> {
///     x.minimum(limit)
/// }
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1_u32, 5, 9], [3]);
/// let (five, itself) = (at_most(x, 5).read(), at_most(x, x).read());
/// batch.submit()?;
/// assert_eq!((five.wait()?, itself.wait()?), (vec![1, 5, 5], vec![1, 5, 9]));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Operand<'b, T>(Either<'b, T>);

#[derive(Clone, Copy, Debug)]
enum Either<'b, T> {
    Tensor(Tensor<'b, T>),
    /// The bits of the type it is computed in.
    Number(u32),
}

impl<T> Operand<'_, T> {
    /// Its shape; that of a number has no dimensions.
    pub(super) fn shape(&self) -> Shape {
        match &self.0 {
            Either::Tensor(tensor) => tensor.value.shape,
            Either::Number(_) => Shape::default(),
        }
    }
}

impl<'b, T: Element> From<Tensor<'b, T>> for Operand<'b, T> {
    fn from(tensor: Tensor<'b, T>) -> Self {
        Self(Either::Tensor(tensor))
    }
}

impl From<f32> for Operand<'_, f32> {
    fn from(number: f32) -> Self {
        Self(Either::Number(number.to_bits()))
    }
}

impl From<f32> for Operand<'_, f16> {
    fn from(number: f32) -> Self {
        Self(Either::Number(number.to_bits()))
    }
}

impl From<u32> for Operand<'_, u32> {
    fn from(number: u32) -> Self {
        Self(Either::Number(number))
    }
}

impl From<i32> for Operand<'_, i32> {
    fn from(number: i32) -> Self {
        Self(Either::Number(number.cast_unsigned()))
    }
}

/// An argument of any element type.
#[derive(Clone, Copy)]
pub(super) enum Argument<'b> {
    Tensor { batch: &'b Batch, value: TensorRef, refused: bool },
    Number(u32),
}

impl<'b, T> From<Tensor<'b, T>> for Argument<'b> {
    fn from(tensor: Tensor<'b, T>) -> Self {
        Self::Tensor { batch: tensor.batch, value: tensor.value, refused: tensor.refused }
    }
}

impl<'b, T> From<Operand<'b, T>> for Argument<'b> {
    fn from(operand: Operand<'b, T>) -> Self {
        match operand.0 {
            Either::Tensor(tensor) => tensor.into(),
            Either::Number(word) => Self::Number(word),
        }
    }
}
