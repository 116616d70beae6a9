//! How invocations become lanes.
//!
//! Lanes form a rectangle of rows. What a register depends on (its [`Shape`]) follows from how workgroups are laid over
//! the rectangle:
//!
//! - [`Mode::Columns`]: kernels without workgroup memory and barriers. Workgroups are side by side, so that a row has
//!   consecutive `global_invocation_id.x`; the rows of a workgroup are rows.
//! - [`Mode::Groups`]: kernels with them whose workgroups have one row, or rows too short to pay. Each row is a
//!   workgroup, and what is uniform in a workgroup is per row.
//! - [`Mode::Tile`]: the others. One workgroup at a time.
//!
//! Kernels whose workgroups may wait for each other (`crate::lower`'s `waits` finds them) run
//! [`alone`](Geometry::alone): one workgroup in a rectangle, started in the order of their numbers. Lanes of a
//! rectangle advance together, so a workgroup that waits for another in its rectangle would wait endlessly. Guaranteed:
//! a workgroup can wait for one with a lower number, or for one that has started. There is no guarantee for invocations
//! that wait for others of their own workgroup, except at barriers.
//!
//! Kernels with subgroups are in [`Mode::Groups`] too, all invocations of a workgroup in one row in the order of
//! `local_invocation_index`: a subgroup is [`SUBGROUP_SIZE`] lanes of a row that follow each other.

use crate::{code::Builtin, lanes::BLOCK, shape::Shape};

/// Invocations of a subgroup: as on lavapipe, so that kernels generated for a software driver run unchanged. Half a
/// block, a register of AVX2.
pub(crate) const SUBGROUP_SIZE: u32 = 8;

/// What of a kernel decides how its invocations become lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelTraits {
    /// Has workgroup memory or barriers.
    pub(crate) workgroups: bool,
    pub(crate) subgroups: bool,
    /// Its workgroups may wait for each other.
    pub(crate) waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `rows`: there is more than one, or the kernel asks.
    Columns {
        rows: bool,
    },
    /// `flat`: all invocations of a workgroup are one row.
    Groups {
        flat: bool,
    },
    Tile,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) workgroup: [u32; 3],
    pub(crate) mode: Mode,
    /// Each rectangle is one workgroup, and they start in order.
    pub(crate) alone: bool,
}

/// How a dispatch is divided into rectangles: their size, and the workgroups in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RectangleLayout {
    /// Lanes of a row.
    pub(crate) width: u32,
    pub(crate) rows: u32,
    /// Workgroups in a rectangle, by axis. In `Groups` mode all count along the first.
    pub(crate) groups: [u32; 3],
    /// Rectangles, by axis.
    pub(crate) sets: [u32; 3],
}

/// One rectangle of a dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rectangle {
    /// The first workgroup; in `Groups` mode its number.
    pub(crate) first: [u32; 3],
    /// Lanes of a row, and rows, that exist.
    pub(crate) width: u32,
    pub(crate) rows: u32,
}

impl Geometry {
    pub(crate) fn new(workgroup: [u32; 3], traits: KernelTraits, builtins: &[Builtin]) -> Self {
        let [width, height, depth] = workgroup;
        let many = height * depth > 1;
        let alone = traits.waits;
        let mode = if traits.subgroups {
            Mode::Groups { flat: many }
        } else if traits.workgroups || alone {
            match many {
                // What is the same in a workgroup is then the same for all lanes.
                false if alone => Mode::Tile,
                false => Mode::Groups { flat: false },
                true if (width as usize) < BLOCK => Mode::Groups { flat: true },
                true => Mode::Tile,
            }
        } else {
            let rows = |builtin: &Builtin| {
                matches!(builtin, Builtin::GlobalId(1 | 2) | Builtin::LocalId(1 | 2) | Builtin::GroupId(1 | 2))
            };
            Mode::Columns { rows: many || builtins.iter().any(rows) }
        };
        Self { workgroup, mode, alone }
    }

    pub(crate) fn shape(&self, builtin: Builtin) -> Shape {
        let many = self.workgroup[1] * self.workgroup[2] > 1;
        match (self.mode, builtin) {
            (_, Builtin::NumGroups(_)) => Shape::UNIFORM,
            // One row: everything that varies is per lane.
            (
                Mode::Columns { rows: false },
                Builtin::GlobalId(0) | Builtin::LocalId(0) | Builtin::GroupId(0) | Builtin::LocalIndex | Builtin::Entry,
            ) => Shape::LANE,
            (
                Mode::Columns { .. },
                Builtin::GlobalId(0) | Builtin::LocalId(0) | Builtin::GroupId(0) | Builtin::Entry,
            ) => Shape::COLUMN,
            (Mode::Columns { .. }, Builtin::LocalIndex) => {
                if many {
                    Shape::LANE
                } else {
                    Shape::COLUMN
                }
            }
            (Mode::Columns { .. }, Builtin::GroupId(2)) => Shape::UNIFORM,
            (Mode::Columns { .. }, Builtin::GlobalId(_) | Builtin::LocalId(_) | Builtin::GroupId(_)) => Shape::ROW,
            (Mode::Groups { .. }, Builtin::GroupId(_)) => Shape::ROW,
            (Mode::Groups { .. }, Builtin::LocalIndex | Builtin::LocalId(_) | Builtin::Entry) => Shape::COLUMN,
            (Mode::Groups { flat: true }, Builtin::GlobalId(_)) | (Mode::Groups { .. }, Builtin::GlobalId(0)) => {
                Shape::LANE
            }
            (Mode::Groups { .. }, Builtin::GlobalId(_)) => Shape::ROW,
            (Mode::Tile, Builtin::GroupId(_)) => Shape::UNIFORM,
            (Mode::Tile, Builtin::LocalIndex) => Shape::LANE,
            (Mode::Tile, Builtin::GlobalId(0) | Builtin::LocalId(0) | Builtin::Entry) => Shape::COLUMN,
            (Mode::Tile, Builtin::GlobalId(_) | Builtin::LocalId(_)) => Shape::ROW,
        }
    }

    /// What is uniform in a workgroup.
    pub(crate) fn workgroup_shape(&self) -> Shape {
        match self.mode {
            Mode::Groups { .. } => Shape::ROW,
            Mode::Columns { .. } | Mode::Tile => Shape::UNIFORM,
        }
    }

    /// By how much a builtin grows from lane to lane of a row, within a workgroup and from one to the next.
    pub(crate) fn linear(&self, builtin: Builtin) -> Option<(u32, u32)> {
        let flat = matches!(self.mode, Mode::Groups { flat: true });
        match builtin {
            Builtin::GlobalId(0) if !flat => Some((1, self.workgroup[0])),
            Builtin::LocalId(0) if !flat => Some((1, 0)),
            Builtin::LocalIndex => Some((1, 0)),
            Builtin::GroupId(0) if !flat => Some((0, 1)),
            _ => None,
        }
    }

    /// The step from lane to lane of a row, if it is the same everywhere.
    pub(crate) fn step(&self, lane: u32, group: u32) -> Option<u32> {
        match self.mode {
            Mode::Columns { .. } => (group == lane.wrapping_mul(self.workgroup[0])).then_some(lane),
            Mode::Groups { .. } | Mode::Tile => Some(lane),
        }
    }

    /// Lanes of a row, and rows, of one workgroup.
    pub(crate) fn extent(&self) -> [u32; 2] {
        let [width, height, depth] = self.workgroup;
        match self.mode {
            Mode::Groups { flat: true } => [width * height * depth, 1],
            _ => [width, height * depth],
        }
    }

    /// Lays a dispatch over rectangles of about `lanes` lanes.
    pub(crate) fn layout(&self, groups: [u32; 3], lanes: u32) -> RectangleLayout {
        let [width, height] = self.extent();
        let lanes = if self.alone { 1 } else { lanes };
        match self.mode {
            Mode::Columns { rows } => {
                // Rectangles of equal size where possible, so that frames and masks are reused.
                let across = even(groups[0], (lanes / (width * height)).clamp(1, groups[0]));
                let down = match rows {
                    // Rows of one workgroup in depth do not mix with those of the next.
                    true => even(groups[1], (lanes / (across * width * height)).clamp(1, groups[1])),
                    false => 1,
                };
                RectangleLayout {
                    width: across * width,
                    rows: down * height,
                    groups: [across, down, 1],
                    sets: [groups[0].div_ceil(across), groups[1].div_ceil(down), groups[2]],
                }
            }
            Mode::Groups { .. } => {
                let total: u64 = groups.into_iter().map(u64::from).product();
                let padded = width.next_multiple_of(16);
                let many = small(total);
                let count = even(many, (lanes / padded).clamp(1, many));
                let sets = total.div_ceil(u64::from(count));
                // More than 2³² rectangles: along two axes.
                let sets = match u32::try_from(sets) {
                    Ok(sets) => [sets, 1, 1],
                    Err(_) => [1 << 31, small(sets.div_ceil(1 << 31)), 1],
                };
                RectangleLayout { width, rows: count, groups: [count, 1, 1], sets }
            }
            Mode::Tile => RectangleLayout { width, rows: height, groups: [1; 3], sets: groups },
        }
    }

    /// The rectangle with this number.
    pub(crate) fn set(&self, layout: &RectangleLayout, groups: [u32; 3], number: u64) -> Option<Rectangle> {
        let [width, height] = self.extent();
        let at = position(number, layout.sets);
        match self.mode {
            Mode::Columns { .. } | Mode::Tile => {
                let first = [at[0] * layout.groups[0], at[1] * layout.groups[1], at[2]];
                let across = layout.groups[0].min(groups[0] - first[0]);
                let down = layout.groups[1].min(groups[1] - first[1]);
                Some(Rectangle { first, width: across * width, rows: down * height })
            }
            Mode::Groups { .. } => {
                let total: u64 = groups.into_iter().map(u64::from).product();
                let first = number * u64::from(layout.groups[0]);
                let left = total.checked_sub(first).filter(|left| *left > 0)?;
                let rows = layout.groups[0].min(small(left));
                Some(Rectangle { first: [small(first), small(first >> 32), 0], width, rows })
            }
        }
    }

    /// The value of a builtin for a lane.
    pub(crate) fn value(&self, builtin: Builtin, set: &Rectangle, groups: [u32; 3], x: u32, y: u32) -> u32 {
        let size = self.workgroup;
        let (group, local) = match self.mode {
            Mode::Columns { .. } | Mode::Tile => {
                let each = size[1] * size[2];
                let (row, down) = (y % each, y / each);
                let group = [set.first[0] + x / size[0], set.first[1] + down, set.first[2]];
                (group, [x % size[0], row % size[1], row / size[1]])
            }
            Mode::Groups { .. } => {
                let number = u64::from(set.first[0]) + (u64::from(set.first[1]) << 32) + u64::from(y);
                (position(number, groups), [x % size[0], x / size[0] % size[1], x / size[0] / size[1]])
            }
        };
        match builtin {
            Builtin::GlobalId(axis) => {
                let axis = usize::from(axis);
                group[axis].wrapping_mul(size[axis]).wrapping_add(local[axis])
            }
            Builtin::LocalId(axis) => local[usize::from(axis)],
            Builtin::GroupId(axis) => group[usize::from(axis)],
            Builtin::NumGroups(axis) => groups[usize::from(axis)],
            Builtin::LocalIndex => (local[2] * size[1] + local[1]) * size[0] + local[0],
            Builtin::Entry => u32::from(x < set.width).wrapping_neg(),
        }
    }
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The coordinates of a number in a grid.
fn position(number: u64, grid: [u32; 3]) -> [u32; 3] {
    let [across, down] = [grid[0], grid[1]].map(u64::from);
    [number % across, number / across % down, number / across / down].map(small)
}

/// The size of parts of at most `most`, as few and as even as possible.
fn even(all: u32, most: u32) -> u32 {
    all.div_ceil(all.div_ceil(most))
}
