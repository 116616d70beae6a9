//! The elements of an array that a kernel binds, and which Rust types fit them.

use std::{any::TypeId, fmt};

use naga::{Handle, Module, Type, TypeInner};

use super::declared::{self, Scalar};

/// An element of a binding that is an array: `array<E>` or `array<E, N>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayElement {
    pub(crate) stride: u64,
    /// The type of its numbers, if they are all the same.
    pub(crate) scalar: Option<Scalar>,
}

/// The numbers of a Rust element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostNumbers {
    /// A WGSL number, or an array of 2 to 4 of them.
    Of(Scalar),
    /// A Rust number that WGSL does not have.
    Foreign,
    /// A structure or another type whose members are not known.
    Unknown,
    /// Memory whose elements may be grouped in any way: rows of numbers of this type, or bytes.
    Flat(Option<Scalar>),
}

impl ArrayElement {
    /// The element of a binding of this type, if it is an array.
    pub(super) fn of(module: &Module, ty: Handle<Type>) -> Option<Self> {
        match module.types[ty].inner {
            TypeInner::Array { base, stride, .. } => {
                Some(Self { stride: stride.into(), scalar: declared::scalar(module, base) })
            }
            _ => None,
        }
    }

    /// Whether elements of `size` bytes with these numbers fit.
    #[inline]
    pub(crate) fn takes(&self, size: usize, numbers: HostNumbers) -> bool {
        // Most bindings: numbers that are known on both sides.
        if let (HostNumbers::Of(host), Some(scalar)) = (numbers, self.scalar)
            && host == scalar
        {
            return size as u64 == self.stride;
        }
        self.takes_others(size, numbers)
    }

    /// As [`takes`](Self::takes), where numbers differ or are not known.
    fn takes_others(&self, size: usize, numbers: HostNumbers) -> bool {
        let agrees = match (numbers, self.scalar) {
            (HostNumbers::Of(host) | HostNumbers::Flat(Some(host)), Some(scalar)) => host == scalar,
            (HostNumbers::Foreign, _) => false,
            _ => true,
        };
        agrees && (size as u64 == self.stride || matches!(numbers, HostNumbers::Flat(_)))
    }
}

impl HostNumbers {
    /// The numbers of `T`. Resolved at compile time.
    #[inline]
    pub(crate) fn of<T: 'static>() -> Self {
        let is = |number: TypeId| TypeId::of::<T>() == number;
        macro_rules! scalar {
            ($($number:ty => $scalar:ident),*) => {$(
                if is(TypeId::of::<$number>())
                    || is(TypeId::of::<[$number; 2]>())
                    || is(TypeId::of::<[$number; 3]>())
                    || is(TypeId::of::<[$number; 4]>())
                {
                    return Self::Of(Scalar::$scalar);
                }
            )*};
        }
        scalar!(f32 => F32, u32 => U32, i32 => I32, half::f16 => F16);
        macro_rules! foreign {
            ($($number:ty)*) => { $(is(TypeId::of::<$number>()))||* };
        }
        let foreign = foreign!(f64 u8 i8 u16 i16 u64 i64 usize isize u128 i128);
        if foreign { Self::Foreign } else { Self::Unknown }
    }

    /// The same numbers, grouped in any way.
    pub(crate) fn flat(self) -> Self {
        Self::Flat(self.scalar())
    }

    fn scalar(self) -> Option<Scalar> {
        match self {
            Self::Of(scalar) => Some(scalar),
            Self::Flat(scalar) => scalar,
            Self::Foreign | Self::Unknown => None,
        }
    }
}

impl fmt::Display for ArrayElement {
    /// The Rust type that fits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self.scalar, self.stride)
    }
}

/// The Rust type of `bytes` with these numbers, for messages.
pub(crate) struct HostType(pub(crate) HostNumbers, pub(crate) usize);

impl fmt::Display for HostType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(numbers, bytes) = *self;
        write_type(f, numbers.scalar(), bytes as u64)
    }
}

fn write_type(f: &mut fmt::Formatter<'_>, scalar: Option<Scalar>, bytes: u64) -> fmt::Result {
    match scalar.map(|scalar| (scalar, bytes / scalar.bytes())) {
        Some((scalar, 1)) => write!(f, "`{scalar}`"),
        Some((scalar, count @ 2..=4)) => write!(f, "`[{scalar}; {count}]`"),
        _ => write!(f, "a type of {bytes} bytes"),
    }
}
