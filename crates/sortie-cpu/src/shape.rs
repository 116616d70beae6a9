//! How a register varies over the lanes.

use std::{fmt, ops};

/// What a register depends on: the column of a lane, its row, both or neither. Lanes form a rectangle; a register is
/// kept only as large as its shape, so what is the same for all lanes costs as much as for one block of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape(u8);

impl Shape {
    pub(crate) const UNIFORM: Self = Self(0);
    pub(crate) const COLUMN: Self = Self(1);
    pub(crate) const ROW: Self = Self(2);
    pub(crate) const LANE: Self = Self(3);

    pub(crate) fn is_uniform(self) -> bool {
        self == Self::UNIFORM
    }

    /// Whether it varies with the column.
    pub(crate) fn has_x(self) -> bool {
        self.0 & 1 != 0
    }

    /// 0 to 3.
    pub(crate) fn class(self) -> usize {
        usize::from(self.0)
    }

    /// Neither uniform nor per lane: spread over the lanes when combined with another shape.
    pub(crate) fn is_partial(self) -> bool {
        self == Self::COLUMN || self == Self::ROW
    }
}

impl ops::BitOr for Shape {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl ops::BitOrAssign for Shape {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["uniform", "column", "row", "lane"][self.class()])
    }
}
