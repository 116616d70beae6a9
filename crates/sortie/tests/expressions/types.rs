//! The types of generated values.

use std::fmt;

use crate::{family::Family, tape::Tape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U32,
    I32,
    Bool,
    F32,
}

/// A scalar or a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// 1 for a scalar.
    pub(crate) width: usize,
}

impl Type {
    pub(crate) fn scalar(kind: Kind) -> Self {
        Self { kind, width: 1 }
    }

    /// Any type of a family.
    pub(crate) fn read(tape: &mut Tape<'_>, family: Family) -> Self {
        let kinds: &[Kind] = match family {
            Family::Integers => &[Kind::U32, Kind::I32, Kind::Bool],
            Family::Exact => &[Kind::U32, Kind::F32, Kind::I32, Kind::Bool, Kind::F32],
            Family::Rounded | Family::Transcendental => &[Kind::F32],
        };
        let kind = kinds[tape.pick(kinds.len())];
        Self { kind, width: [1, 1, 1, 2, 3, 4][tape.pick(6)] }
    }

    pub(crate) fn with(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::Bool => "bool",
            Self::F32 => "f32",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            1 => write!(f, "{}", self.kind),
            width => write!(f, "vec{width}<{}>", self.kind),
        }
    }
}
