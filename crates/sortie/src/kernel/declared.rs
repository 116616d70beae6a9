//! A kernel's buffers as its source declares them, for programs that run kernels they did not write.

use std::fmt;

use naga::{Handle, Module, ScalarKind, Type, TypeInner};
use rustc_hash::FxHashSet;

use super::interface::{Binding, BindingKind};

/// A buffer binding of a kernel, as its source declares it. From [`Kernel::bindings`](super::Kernel::bindings).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindingInfo {
    /// Its `@group`.
    pub group: u32,
    /// Its `@binding`.
    pub binding: u32,
    /// The name of the variable.
    pub name: String,
    /// Whether it is `var<storage, read_write>`.
    pub writes: bool,
    /// Whether it is `var<uniform>`.
    pub uniform: bool,
    /// Minimum bytes of a buffer bound to it.
    pub least_bytes: u64,
    /// Bytes before its trailing runtime-sized array; its whole size if it has none.
    pub fixed_bytes: u64,
    /// Bytes of one element of that array.
    pub stride: Option<u64>,
    /// The type of its numbers; `None` if they are of different types.
    pub scalar: Option<Scalar>,
}

/// The type of a number in a buffer.
///
/// ```
/// use sortie::kernel::Scalar;
/// # let device = sortie::Device::cpu()?;
/// let kernel = device.kernel("
///     @group(0) @binding(0) var<storage, read_write> x: array<vec2<i32>>;
///     @compute @workgroup_size(1) fn main() { x[0] = vec2(1); }
/// ")?;
/// assert_eq!(kernel.bindings()[0].scalar, Some(Scalar::I32));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scalar {
    /// `f32`
    F32,
    /// `f16`
    F16,
    /// `i32`
    I32,
    /// `u32`
    U32,
}

impl Scalar {
    /// Its size.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::U32 => "u32",
        })
    }
}

impl BindingInfo {
    pub(super) fn new(binding: &Binding) -> Self {
        let Binding { group, binding: number, name, kind, declared_writes, min_bytes, tail, scalar, .. } = binding;
        Self {
            group: *group,
            binding: *number,
            name: name.clone(),
            writes: *declared_writes,
            uniform: *kind == BindingKind::Uniform,
            least_bytes: *min_bytes,
            fixed_bytes: tail.map_or(*min_bytes, |tail| tail.offset),
            stride: tail.map(|tail| tail.stride),
            scalar: *scalar,
        }
    }

    /// Bytes of a buffer whose runtime-sized array has this many elements; the binding's size if it has no such array.
    /// `None` on overflow.
    #[must_use]
    pub fn bytes(&self, elements: u64) -> Option<u64> {
        let Some(stride) = self.stride else { return Some(self.least_bytes) };
        let bytes = elements.checked_mul(stride)?.checked_add(self.fixed_bytes)?;
        // A struct's size is rounded up to its alignment.
        Some(bytes.max(self.least_bytes))
    }
}

/// The type of all numbers in a type, if they are the same. `None` for types without numbers.
pub(super) fn scalar(module: &Module, ty: Handle<Type>) -> Option<Scalar> {
    // Each type is visited once: nested structs have few types but many members.
    let mut seen = FxHashSet::default();
    let mut left = vec![ty];
    let mut first = None;
    while let Some(ty) = left.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match module.types[ty].inner {
            TypeInner::Scalar(scalar)
            | TypeInner::Atomic(scalar)
            | TypeInner::Vector { scalar, .. }
            | TypeInner::Matrix { scalar, .. } => {
                let scalar = match (scalar.kind, scalar.width) {
                    (ScalarKind::Float, 4) => Scalar::F32,
                    (ScalarKind::Float, 2) => Scalar::F16,
                    (ScalarKind::Sint, 4) => Scalar::I32,
                    (ScalarKind::Uint, 4) => Scalar::U32,
                    _ => return None,
                };
                if first.is_some_and(|first| first != scalar) {
                    return None;
                }
                first = Some(scalar);
            }
            TypeInner::Array { base, .. } => left.push(base),
            TypeInner::Struct { ref members, .. } => left.extend(members.iter().map(|member| member.ty)),
            _ => return None,
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use naga::valid::Capabilities;

    use super::{super::parse::parse, *};

    fn info(declarations: &str, ty: &str) -> BindingInfo {
        let source = format!(
            "enable f16; {declarations} @group(2) @binding(3) var<storage, read_write> x: {ty};
            @compute @workgroup_size(1) fn main() {{ _ = &x; }}"
        );
        let parsed = parse(&source, None, &[], Capabilities::all()).unwrap_or_else(|error| panic!("{error}"));
        BindingInfo::new(&parsed.interface.bindings[0])
    }

    #[test]
    fn numbers_are_known_where_all_are_the_same() {
        let pair = "struct P { a: vec2<f32>, b: array<f32, 3> }";
        for (declarations, ty, expected) in [
            ("", "array<f32>", Some(Scalar::F32)),
            ("", "array<mat3x3<f16>>", Some(Scalar::F16)),
            ("", "array<atomic<i32>>", Some(Scalar::I32)),
            (pair, "array<P>", Some(Scalar::F32)),
            ("struct S { n: u32, x: array<u32> }", "S", Some(Scalar::U32)),
            ("struct S { n: u32, x: array<f32> }", "S", None),
        ] {
            assert_eq!(info(declarations, ty).scalar, expected, "{ty}");
        }
    }

    #[test]
    fn bytes_are_the_fixed_part_and_whole_elements() {
        assert_eq!(info("", "array<vec3<f32>>").bytes(5), Some(80));
        assert_eq!(info("", "array<f32, 7>").bytes(5), Some(28));
        // Its size is rounded up to 32.
        let padded = info("struct S { v: vec4<f32>, n: u32, data: array<u32> }", "S");
        assert_eq!([0, 1, 3, 5].map(|elements| padded.bytes(elements)), [32, 32, 32, 40].map(Some));
        assert_eq!(info("", "array<f32>").bytes(u64::MAX), None);
    }
}
