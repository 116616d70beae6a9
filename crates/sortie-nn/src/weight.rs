//! Element types of parameters.

use safetensors::Dtype;
use sortie::{half, tensor::Float};

/// Element types of parameters: `f32` and [`half::f16`]. Computations are in `f32`.
///
/// ```
/// use sortie::{Device, half::f16};
/// use sortie_nn::{Linear, Weights};
///
/// # fn main() -> sortie_nn::Result<()> {
/// // Half the memory; whatever the file has is converted.
/// let weights = Weights::from_fn(|_, shape| vec![0.5; shape.iter().product()]);
/// let linear: Linear<f16> = weights.load(&Device::cpu()?, |params| Linear::new(params, [3, 2]))?;
/// # Ok(())
/// # }
/// ```
pub trait Weight: Float + sealed::Sealed {}

mod sealed {
    pub trait Sealed: sortie::bytemuck::Pod {
        fn from_f32(value: f32) -> Self;
    }
}

pub(crate) use self::sealed::Sealed;

impl Weight for f32 {}
impl Weight for half::f16 {}

impl Sealed for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Sealed for half::f16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// Bytes of an element of a stored parameter; `None` if this type is not converted.
pub(crate) fn stored_bytes(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

/// Converts little-endian elements of a stored type; `bytes` are whole elements.
pub(crate) fn converted<T: Weight>(dtype: Dtype, bytes: &[u8], into: &mut Vec<T>) {
    into.clear();
    let two = |bytes: &[u8]| [bytes[0], bytes[1]];
    match dtype {
        Dtype::F32 => {
            let four = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            into.extend(bytes.chunks_exact(4).map(|bytes| T::from_f32(four(bytes))));
        }
        Dtype::F16 => {
            let value = |bytes: &[u8]| half::f16::from_le_bytes(two(bytes)).to_f32();
            into.extend(bytes.chunks_exact(2).map(|bytes| T::from_f32(value(bytes))));
        }
        _ => {
            let value = |bytes: &[u8]| half::bf16::from_le_bytes(two(bytes)).to_f32();
            into.extend(bytes.chunks_exact(2).map(|bytes| T::from_f32(value(bytes))));
        }
    }
}
