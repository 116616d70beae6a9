//! Grids: how many workgroups a dispatch runs.

use super::bind::{Bind, BindTarget};
use crate::error::{Error, ErrorKind, Result};

/// The size of a dispatch.
///
/// A grid of zero is a no-op, and its bindings may be buffers of length 0. A grid with more groups than the device
/// allows in one dimension is folded; the kernel still sees the original ids.
///
/// ```
/// use sortie::Grid;
///
/// let row = Grid::items(1_000_000);       // as many workgroups as cover a million invocations
/// let image = Grid::items([1920, 1080]);
/// let exact = Grid::groups([4, 4, 1]);    // workgroups
/// # let _ = (row, image, exact);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a>(pub(super) GridSize<'a>);

#[derive(Clone, Copy, Debug)]
pub(super) enum GridSize<'a> {
    Items([u64; 3]),
    Groups([u64; 3]),
    Indirect(BindTarget<'a>),
    /// A negative extent.
    Invalid(i64),
}

impl<'a> Grid<'a> {
    /// Enough workgroups to cover `n`, `[w, h]` or `[w, h, d]` invocations. The last groups may exceed the extent:
    /// guard for it.
    #[must_use]
    pub fn items(extent: impl Extent) -> Self {
        Self(extent.extent().map_or_else(GridSize::Invalid, GridSize::Items))
    }

    /// Exactly these workgroups.
    #[must_use]
    pub fn groups(extent: impl Extent) -> Self {
        Self(extent.extent().map_or_else(GridSize::Invalid, GridSize::Groups))
    }

    /// Reads the number of workgroups, three `u32`, from device memory when the dispatch runs. Counts over the device's
    /// limit run nothing.
    ///
    /// ```
    /// use sortie::Grid;
    /// # let device = sortie::Device::cpu()?;
    /// let count = device.kernel("
    ///     @group(0) @binding(0) var<storage, read_write> n: array<atomic<u32>>;
    ///     @compute @workgroup_size(64) fn main() { atomicAdd(&n[0], 1u); }
    /// ")?;
    /// let groups = device.upload(&[3_u32, 1, 1])?; // another kernel may have written it, in the same batch
    /// let n = device.zeros::<u32>(1)?;
    /// let batch = device.batch();
    /// batch.dispatch(&count, &[&n], Grid::indirect(&groups));
    /// batch.submit()?;
    /// assert_eq!(n.download()?, [3 * 64]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn indirect(counts: &'a dyn Bind) -> Self {
        Self(GridSize::Indirect(counts.place()))
    }

    /// Whether it is known to run nothing.
    pub(super) fn is_zero(&self) -> bool {
        match &self.0 {
            GridSize::Items(extent) | GridSize::Groups(extent) => extent.contains(&0),
            GridSize::Indirect(_) | GridSize::Invalid(_) => false,
        }
    }
}

/// A bare number, array or tuple is a number of items: `batch.dispatch(&kernel, &bindings, [1920, 1080])`.
impl<E: Extent> From<E> for Grid<'_> {
    fn from(extent: E) -> Self {
        Self::items(extent)
    }
}

/// An extent in one, two or three dimensions.
///
/// ```
/// use sortie::{Grid, batch::Extent};
///
/// /// One invocation per `every` items, in each dimension.
/// fn thinned(all: [u32; 2], every: u32) -> impl Extent {
///     all.map(|n| n.div_ceil(every))
/// }
/// let grid = Grid::items(thinned([1920, 1080], 4));
/// # let _ = grid;
/// ```
pub trait Extent: sealed::Extent {}

impl<E: sealed::Extent> Extent for E {}

mod sealed {
    pub trait Extent {
        /// The extent, or the negative number in it.
        fn extent(self) -> Result<[u64; 3], i64>;
    }

    pub trait Count: Copy {
        fn count(self) -> Result<u64, i64>;
    }

    macro_rules! count {
        ($($int:ty),*) => {$(
            impl Count for $int {
                fn count(self) -> Result<u64, i64> {
                    u64::try_from(self).map_err(|_| i64::try_from(self).unwrap_or(i64::MIN))
                }
            }

            impl Extent for $int {
                fn extent(self) -> Result<[u64; 3], i64> {
                    Ok([self.count()?, 1, 1])
                }
            }
        )*};
    }
    count!(usize, isize, u16, u32, u64, i32, i64);

    macro_rules! extents {
        ($(<$($count:ident),+> $extent:ty: |$of:ident| $x:expr, $y:expr, $z:expr;)*) => {$(
            impl<$($count: Count),+> Extent for $extent {
                fn extent(self) -> Result<[u64; 3], i64> {
                    let $of = self;
                    Ok([$x.count()?, $y.count()?, $z.count()?])
                }
            }
        )*};
    }

    extents! {
        <A, B> (A, B): |of| of.0, of.1, 1_u32;
        <A, B, C> (A, B, C): |of| of.0, of.1, of.2;
        <C> [C; 1]: |of| of[0], 1_u32, 1_u32;
        <C> [C; 2]: |of| of[0], of[1], 1_u32;
        <C> [C; 3]: |of| of[0], of[1], of[2];
    }
}

/// Ids are 32 bits wide, which limits a grid in each dimension.
const MAX_ITEMS: u64 = 1 << 32;

/// The groups of a grid of items, if there are at most `most` in each dimension and none of its ids comes near the
/// largest. `None`: see [`groups`].
#[inline]
pub(super) fn small(size: &GridSize<'_>, workgroup: [u32; 3], most: u32) -> Option<[u32; 3]> {
    let GridSize::Items([x, y, z]) = *size else { return None };
    if (x | y | z) >= MAX_ITEMS / 2 {
        return None;
    }
    if (y, z) == (1, 1) {
        let groups = cover(x, workgroup[0]);
        if (1..=u64::from(most)).contains(&groups) {
            return Some([groups as u32, 1, 1]);
        }
    }
    let [x, y, z] = [cover(x, workgroup[0]), cover(y, workgroup[1]), cover(z, workgroup[2])];
    if x == 0 || y == 0 || z == 0 {
        return Some([0; 3]);
    }
    let narrow = |groups: u64| (groups <= u64::from(most)).then_some(groups as u32);
    Some([narrow(x)?, narrow(y)?, narrow(z)?])
}

/// The groups of a direct grid, checked against the range of ids.
pub(super) fn groups(size: &GridSize<'_>, workgroup: [u32; 3]) -> Result<[u64; 3]> {
    let groups: [u64; 3] = match size {
        GridSize::Items(items) => {
            if let Some(items) = items.iter().find(|items| **items > MAX_ITEMS) {
                return Err(Error::too_large("items in one dimension of a grid", *items, MAX_ITEMS));
            }
            std::array::from_fn(|axis| cover(items[axis], workgroup[axis]))
        }
        GridSize::Groups(groups) => *groups,
        GridSize::Invalid(extent) => {
            return Err(Error::new(ErrorKind::Grid, format!("a grid cannot have an extent of {extent}")));
        }
        GridSize::Indirect(_) => unreachable!("an indirect grid has its groups in device memory"),
    };
    if groups.contains(&0) {
        return Ok([0; 3]);
    }
    for (axis, groups) in groups.iter().enumerate() {
        let items = groups.saturating_mul(u64::from(workgroup[axis]));
        if items > MAX_ITEMS {
            return Err(Error::too_large("items in one dimension of a grid", items, MAX_ITEMS));
        }
    }
    Ok(groups)
}

/// Groups that cover `items`. Uses shifts if possible, since this runs for every dispatch recorded.
#[inline]
fn cover(items: u64, size: u32) -> u64 {
    let size = u64::from(size);
    if items <= size {
        u64::from(items > 0)
    } else if size.is_power_of_two() {
        (items + size - 1) >> size.trailing_zeros()
    } else {
        items.div_ceil(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(grid: &Grid<'_>, workgroup: [u32; 3]) -> Result<[u64; 3]> {
        groups(&grid.0, workgroup)
    }

    #[test]
    fn items_are_covered_by_whole_groups_in_each_dimension() -> Result<()> {
        assert_eq!(of(&Grid::items(100), [64, 1, 1])?, [2, 1, 1]);
        assert_eq!(of(&Grid::items([100, 9]), [8, 8, 1])?, [13, 2, 1]);
        assert_eq!(of(&Grid::items([1_u32, 2, 3]), [1, 1, 2])?, [1, 2, 2]);
        assert_eq!(of(&Grid::groups([7_usize, 1, 1]), [64, 1, 1])?, [7, 1, 1]);
        Ok(())
    }

    #[test]
    fn small_grids_are_the_same_without_the_checks_of_large_ones() -> Result<()> {
        let sizes = [0, 1, 2, 63, 64, 65, 1000, 65_535 * 64, 65_535 * 64 + 1, (1 << 31) - 1, 1 << 31];
        for (items, other) in sizes.iter().flat_map(|items| [0, 1, 5, 1 << 20].map(|other| (*items, other))) {
            for workgroup in [[1, 1, 1], [64, 1, 1], [8, 8, 4], [3, 5, 7], [1024, 1, 1]] {
                let grid = Grid::items([items, other, 1_u64]);
                let checked = of(&grid, workgroup)?;
                if let Some(groups) = small(&grid.0, workgroup, 65_535) {
                    assert_eq!(groups.map(u64::from), checked, "{items} × {other} in groups of {workgroup:?}");
                } else {
                    let large = checked.iter().any(|groups| *groups > 65_535);
                    assert!(items >= 1 << 31 || large, "{items} × {other} in groups of {workgroup:?}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn zero_anywhere_is_nothing_at_all() -> Result<()> {
        assert_eq!(of(&Grid::items([5, 0]), [8, 8, 1])?, [0; 3]);
        assert_eq!(of(&Grid::groups([0, 3, 3]), [8, 8, 1])?, [0; 3]);
        Ok(())
    }

    #[test]
    fn what_ids_cannot_express_is_too_large_and_what_is_negative_no_grid() {
        let kind = |grid: Grid<'_>| of(&grid, [64, 1, 1]).map_err(|error| error.kind());
        let too_large = |wanted| Err(ErrorKind::TooLarge { wanted, limit: MAX_ITEMS });
        assert_eq!(kind(Grid::items((1_u64 << 32) + 1)), too_large((1 << 32) + 1));
        assert_eq!(kind(Grid::items(1_u64 << 32)), Ok([1 << 26, 1, 1]));
        assert_eq!(kind(Grid::groups([(1_u64 << 26) + 1, 1, 1])), too_large((1 << 32) + 64));
        assert_eq!(kind(Grid::items(-1)), Err(ErrorKind::Grid));
    }
}
