//! A buffer with a shape.

use sortie::{Batch, Buffer, Tensor, tensor::Element};

use crate::{
    error::{Error, Result},
    weight::Weight,
};

/// A parameter of a model: a buffer with a shape. It stays on the device; clones share it.
///
/// ```
/// use sortie::Device;
/// use sortie_nn::Param;
///
/// # fn main() -> sortie_nn::Result<()> {
/// let device = Device::cpu()?;
/// let scale = Param::new(device.upload(&[1.0_f32, 2.0, 3.0])?, [3])?;
/// let batch = device.batch();
/// let y = (batch.tensor_from(&[1.0_f32; 6], [2, 3]) * scale.tensor(&batch)).read();
/// batch.submit()?;
/// assert_eq!(y.wait()?, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Param<T> {
    buffer: Buffer<T>,
    shape: Vec<usize>,
}

impl<T: Element> Param<T> {
    /// A buffer with this shape.
    ///
    /// # Errors
    /// [`Error::Layer`] if the shape has another number of elements than the buffer.
    pub fn new(buffer: Buffer<T>, shape: impl AsRef<[usize]>) -> Result<Self> {
        let shape = shape.as_ref().to_vec();
        if len_of(&shape) != Some(buffer.len()) {
            return Err(Error::Layer(format!("a parameter of shape {shape:?} in a buffer of {}", buffer.len())));
        }
        Ok(Self { buffer, shape })
    }

    /// A placeholder, while names and shapes are checked.
    pub(crate) fn unread(buffer: Buffer<T>, shape: &[usize]) -> Self {
        Self { buffer, shape: shape.to_vec() }
    }

    /// Its lengths of dimensions, the outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its memory.
    #[must_use]
    pub fn buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// It as a tensor of a batch.
    #[track_caller]
    pub fn tensor<'b>(&self, batch: &'b Batch) -> Tensor<'b, T> {
        batch.tensor(&self.buffer, &self.shape)
    }
}

impl<T: Weight> Param<T> {
    /// It as a tensor of `f32`, in which layers compute.
    #[track_caller]
    pub(crate) fn wide<'b>(&self, batch: &'b Batch) -> Tensor<'b, f32> {
        self.tensor(batch).cast()
    }
}

/// Number of elements of a shape.
pub(crate) fn len_of(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |all, len| all.checked_mul(*len))
}
