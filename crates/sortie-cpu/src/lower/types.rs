//! The scalars of a type, and their layout in memory.

use naga::{ArraySize, Handle, Module, Scalar, ScalarKind, Type, TypeInner, proc::TypeResolution};

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    Half,
    /// `i64` and `u64`: two words, the low one first.
    Long,
    Ulong,
}

impl Kind {
    /// `None` for an unsupported width.
    pub(super) fn of(scalar: Scalar) -> Option<Self> {
        Some(match (scalar.kind, scalar.width) {
            (ScalarKind::Bool, _) => Self::Bool,
            (ScalarKind::Sint, 4) => Self::Int,
            (ScalarKind::Uint, 4) => Self::Uint,
            (ScalarKind::Sint, 8) => Self::Long,
            (ScalarKind::Uint, 8) => Self::Ulong,
            (ScalarKind::Float, 4) => Self::Float,
            (ScalarKind::Float, 2) => Self::Half,
            _ => return None,
        })
    }

    /// Two words.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::Long | Self::Ulong)
    }

    /// Registers of a scalar.
    pub(super) fn cells(self) -> u32 {
        if self.is_wide() { 2 } else { 1 }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Float | Self::Half)
    }

    /// Selects by the arithmetic of the kind.
    pub(super) fn pick<T>(self, float: T, signed: T, unsigned: T) -> T {
        match self {
            Self::Float | Self::Half => float,
            Self::Int | Self::Long => signed,
            Self::Uint | Self::Ulong | Self::Bool => unsigned,
        }
    }

    /// Bytes in buffers.
    fn width(self) -> u32 {
        match self {
            Self::Half => 2,
            Self::Long | Self::Ulong => 8,
            _ => 4,
        }
    }
}

/// A type during lowering.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ty {
    Scalar(Kind),
    Vector(u32, Kind),
    /// Columns, rows.
    Matrix(u32, u32, Kind),
    /// `None`: a runtime-sized array.
    Array {
        base: Handle<Type>,
        count: Option<u32>,
        stride: u32,
    },
    Struct(Handle<Type>),
}

/// The layout of values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MemoryLayout {
    /// As in buffers: bytes, with WGSL's alignment.
    Host,
    /// One word for each scalar, in order.
    Cells,
}

/// A scalar inside a value, or a word of one: its kind, and its offset in bytes or words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) kind: Kind,
    pub(super) offset: u32,
}

impl Ty {
    /// `Err` names the unsupported feature.
    pub(super) fn of(module: &Module, resolution: &TypeResolution) -> Result<Self, String> {
        match resolution {
            TypeResolution::Handle(handle) => Self::of_handle(module, *handle),
            TypeResolution::Value(inner) => Self::of_inner(inner, None),
        }
    }

    pub(super) fn of_handle(module: &Module, handle: Handle<Type>) -> Result<Self, String> {
        Self::of_inner(&module.types[handle].inner, Some(handle))
    }

    fn of_inner(inner: &TypeInner, handle: Option<Handle<Type>>) -> Result<Self, String> {
        let kind = |scalar: Scalar| {
            Kind::of(scalar).ok_or_else(|| {
                let letter = match scalar.kind {
                    ScalarKind::Sint => "i",
                    ScalarKind::Uint => "u",
                    _ => "f",
                };
                format!("{letter}{}", u32::from(scalar.width) * 8)
            })
        };
        Ok(match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Self::Scalar(kind(scalar)?),
            TypeInner::Vector { size, scalar } => Self::Vector(size as u32, kind(scalar)?),
            TypeInner::Matrix { columns, rows, scalar } => Self::Matrix(columns as u32, rows as u32, kind(scalar)?),
            TypeInner::Array { base, size, stride } => {
                let count = match size {
                    ArraySize::Constant(count) => Some(count.get()),
                    ArraySize::Dynamic => None,
                    ArraySize::Pending(_) => return Err("an array whose length is an unresolved override".into()),
                };
                Self::Array { base, count, stride }
            }
            TypeInner::Struct { .. } => match handle {
                Some(handle) => Self::Struct(handle),
                None => return Err("a struct without a name".into()),
            },
            TypeInner::Image { .. } => return Err("a texture".into()),
            TypeInner::Sampler { .. } => return Err("a sampler".into()),
            TypeInner::AccelerationStructure { .. } | TypeInner::RayQuery { .. } => return Err("a ray query".into()),
            TypeInner::BindingArray { .. } => return Err("a binding array".into()),
            TypeInner::CooperativeMatrix { .. } => return Err("a cooperative matrix".into()),
            TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => return Err("a pointer as a value".into()),
        })
    }

    /// The type that a pointer points to; any other type itself.
    pub(super) fn pointee(module: &Module, resolution: &TypeResolution) -> Result<Self, String> {
        match resolution.inner_with(&module.types) {
            TypeInner::Pointer { base, .. } => Self::of_handle(module, *base),
            TypeInner::ValuePointer { size: None, scalar, .. } => Self::of_inner(&TypeInner::Scalar(*scalar), None),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => {
                Self::of_inner(&TypeInner::Vector { size: *size, scalar: *scalar }, None)
            }
            _ => Self::of(module, resolution),
        }
    }

    /// Calls `leaf` for each scalar, or each word of it, in order. A runtime-sized array has none.
    pub(super) fn leaves(
        self,
        module: &Module,
        layout: MemoryLayout,
        at: u32,
        leaf: &mut impl FnMut(Leaf),
    ) -> Result<(), String> {
        match self {
            Self::Scalar(kind) => {
                leaf(Leaf { kind, offset: at });
                if kind.is_wide() {
                    leaf(Leaf { kind, offset: at + if layout == MemoryLayout::Host { 4 } else { 1 } });
                }
            }
            Self::Vector(..) | Self::Matrix(..) | Self::Array { .. } => {
                let (element, count, stride) = self.elements(module, layout)?;
                for index in 0..count.unwrap_or(0) {
                    element.leaves(module, layout, at + index * stride, leaf)?;
                }
            }
            Self::Struct(handle) => {
                for index in 0..members(module, handle).len() {
                    let (member, offset) = self.member(module, layout, index)?;
                    member.leaves(module, layout, at + offset, leaf)?;
                }
            }
        }
        Ok(())
    }

    /// The number of registers: one for each scalar, or for each of its words.
    pub(super) fn cells(self, module: &Module) -> Result<u32, String> {
        Ok(match self {
            Self::Scalar(kind) => kind.cells(),
            Self::Vector(size, kind) => size * kind.cells(),
            Self::Matrix(columns, rows, _) => columns * rows,
            Self::Array { base, count, .. } => {
                let each = Self::of_handle(module, base)?.cells(module)?;
                each.checked_mul(count.unwrap_or(0)).ok_or_else(|| "an array of more than 4 Gi words".to_owned())?
            }
            Self::Struct(handle) => {
                let mut sum = 0_u32;
                for member in members(module, handle) {
                    sum = sum.saturating_add(Self::of_handle(module, member.ty)?.cells(module)?);
                }
                sum
            }
        })
    }

    /// The element type of an array, matrix or vector, the number of elements, and their stride.
    pub(super) fn elements(self, module: &Module, layout: MemoryLayout) -> Result<(Self, Option<u32>, u32), String> {
        let host = layout == MemoryLayout::Host;
        Ok(match self {
            Self::Vector(size, kind) => {
                (Self::Scalar(kind), Some(size), if host { kind.width() } else { kind.cells() })
            }
            Self::Matrix(columns, rows, kind) => {
                let stride = match rows {
                    rows if !host => rows,
                    3 => 4 * kind.width(),
                    rows => rows * kind.width(),
                };
                (Self::Vector(rows, kind), Some(columns), stride)
            }
            Self::Array { base, count, stride } => {
                let base = Self::of_handle(module, base)?;
                (base, count, if host { stride } else { base.cells(module)? })
            }
            Self::Scalar(_) | Self::Struct(_) => unreachable!("has no elements"),
        })
    }

    /// A member of a struct, and its offset.
    pub(super) fn member(self, module: &Module, layout: MemoryLayout, index: usize) -> Result<(Self, u32), String> {
        let Self::Struct(handle) = self else { unreachable!("has no members") };
        let members = members(module, handle);
        let offset = match layout {
            MemoryLayout::Host => members[index].offset,
            MemoryLayout::Cells => {
                let mut sum = 0;
                for member in &members[..index] {
                    sum += Self::of_handle(module, member.ty)?.cells(module)?;
                }
                sum
            }
        };
        Ok((Self::of_handle(module, members[index].ty)?, offset))
    }

    /// The scalar kind of a scalar, vector or matrix.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Scalar(kind) | Self::Vector(_, kind) | Self::Matrix(_, _, kind) => Some(kind),
            Self::Array { .. } | Self::Struct(_) => None,
        }
    }
}

fn members(module: &Module, handle: Handle<Type>) -> &[naga::StructMember] {
    match &module.types[handle].inner {
        TypeInner::Struct { members, .. } => members,
        _ => unreachable!("a struct"),
    }
}
