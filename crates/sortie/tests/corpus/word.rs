//! What is expected of one word of memory.

/// 32 bits of a result, as a reference knows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Word {
    /// These bits.
    Bits(u32),
    /// An `f32` near this; NaN stands for any NaN.
    Float(f64),
    /// Two `f16`, the lower half first.
    Halves(f64, f64),
    /// One of the numbers from the first to the second.
    Among(u32, u32),
    /// Anything: padding, or what an access out of bounds may have touched.
    Any,
}

/// Data as words of 32 bits.
pub(crate) trait Words {
    fn words(&self) -> Vec<u32>;
}

impl<T: bytemuck::NoUninit> Words for Vec<T> {
    fn words(&self) -> Vec<u32> {
        bytemuck::pod_collect_to_vec(self)
    }
}

impl<T: bytemuck::NoUninit, const N: usize> Words for [T; N] {
    fn words(&self) -> Vec<u32> {
        bytemuck::pod_collect_to_vec(self)
    }
}

/// What a reference may give for a word: integers and `f32` for exact bits, `f64` for a float near it.
impl From<u32> for Word {
    fn from(value: u32) -> Self {
        Self::Bits(value)
    }
}

impl From<i32> for Word {
    fn from(value: i32) -> Self {
        Self::Bits(value.cast_unsigned())
    }
}

impl From<bool> for Word {
    fn from(value: bool) -> Self {
        Self::Bits(u32::from(value))
    }
}

impl From<f64> for Word {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<f32> for Word {
    fn from(value: f32) -> Self {
        Self::Float(f64::from(value))
    }
}
