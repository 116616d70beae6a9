//! Element types of tensors.

use bytemuck::Pod;
use sortie_plan::ElementType;

pub(super) use self::sealed::Sealed;

/// Element types of tensors: `f32`, [`half::f16`], `u32` and `i32`.
///
/// An `f16` is stored in two bytes and computed in `f32`: every operation rounds its result.
///
/// ```
/// use sortie::{Tensor, tensor::Element};
///
/// fn cube<T: Element>(x: Tensor<'_, T>) -> Tensor<'_, T> {
///     x * x * x
/// }
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let y = cube(batch.tensor_from(&[-2_i32, 3], [2])).read();
/// batch.submit()?;
/// assert_eq!(y.wait()?, [-8, 27]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Element: Pod + sealed::Sealed {}

mod sealed {
    pub trait Sealed: bytemuck::Pod {
        const KIND: sortie_plan::ElementType;
    }
}

macro_rules! element {
    ($($element:ty: $kind:ident)*) => {$(
        impl Element for $element {}
        impl Sealed for $element {
            const KIND: ElementType = ElementType::$kind;
        }
    )*};
}

element! { f32: F32 half::f16: F16 u32: U32 i32: I32 }

/// Floating-point elements: `f32` and [`half::f16`].
///
/// ```
/// use sortie::{Tensor, half::f16, tensor::Float};
///
/// fn linear<'b, T: Float>(x: Tensor<'b, T>, w: Tensor<'b, T>, b: Tensor<'b, T>) -> Tensor<'b, T> {
///     x.matmul(w) + b
/// }
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1.0, 2.0].map(f16::from_f32), [1, 2]);
/// let w = batch.tensor_from(&[3.0, 4.0].map(f16::from_f32), [2, 1]);
/// let b = batch.tensor_from(&[f16::ONE], [1]);
/// let y = linear(x, w, b).read();
/// batch.submit()?;
/// assert_eq!(y.wait()?, [f16::from_f32(12.0)]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Float: Element {}

impl Float for f32 {}
impl Float for half::f16 {}

/// Signed elements: `f32`, [`half::f16`] and `i32`.
///
/// ```
/// use sortie::{Tensor, tensor::Signed};
///
/// fn distance<'b, T: Signed>(x: Tensor<'b, T>, y: Tensor<'b, T>) -> Tensor<'b, T> {
///     (x - y).abs()
/// }
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let apart = distance(batch.tensor_from(&[1_i32, 5], [2]), batch.tensor_from(&[3_i32], [1])).read();
/// batch.submit()?;
/// assert_eq!(apart.wait()?, [2, 2]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Signed: Element {}

impl Signed for f32 {}
impl Signed for half::f16 {}
impl Signed for i32 {}
