//! Folds grids over the device's limit into smaller ones: the real grid to dispatch, and the parameter block from which
//! the wrapped entry point of a kernel computes the original group of each real group.
//!
//! Invariant: a [`FoldedGrid`] has at least as many groups as the original grid, and fewer than 2^32, so that a group's
//! linear number is a `u32` that never wraps. Groups past `total` return at once.

/// Bytes of the parameter block.
pub const GRID_BLOCK: u64 = 32;

/// The parameter block, as WGSL lays out `struct { groups: vec3<u32>, base: u32, total: u32 }`:
///
/// | bytes | field | meaning |
/// |---|---|---|
/// | 0..12 | `groups` | the grid that the kernel sees |
/// | 12..16 | `base` | linear number of the dispatch's first group |
/// | 16..20 | `total` | groups from this linear number on return at once |
/// | 20..32 | | zero: a struct's size is a multiple of its alignment, 16 |
///
/// The dispatch's own groups and `base` together must stay below 2^32.
#[must_use]
pub fn grid_block(groups: [u32; 3], base: u32, total: u32) -> [u8; GRID_BLOCK as usize] {
    let mut block = [0; GRID_BLOCK as usize];
    let fields = [groups[0], groups[1], groups[2], base, total];
    for (bytes, field) in block.chunks_exact_mut(4).zip(fields) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    block
}

/// A grid within the device's limit that replaces a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedGrid {
    /// The grid to dispatch.
    pub dispatch: [u32; 3],
    /// Groups of the grid that it replaces.
    pub total: u32,
}

/// How many row counts, and then layer counts, are tried to reduce waste.
const TRIES: u64 = 64;
const LAYER_TRIES: u64 = 4;

/// Folds `groups` into a grid with at most `max` groups in each dimension. `None` if there are 2^32 groups or more, or
/// so close to it that every folded grid would reach 2^32.
#[must_use]
pub fn fold(groups: [u64; 3], max: u32) -> Option<FoldedGrid> {
    let total = groups.iter().try_fold(1u64, |product, &groups| product.checked_mul(groups));
    // A zero makes the grid empty even if the product of the others overflows.
    let total = if groups.contains(&0) { 0 } else { u32::try_from(total?).ok()? };
    if total <= max {
        return Some(FoldedGrid { dispatch: [total, 1, 1], total });
    }
    if max == 0 {
        return None;
    }
    let (wanted, max) = (u64::from(total), u64::from(max));
    let mut best: Option<(u64, [u64; 3])> = None;
    let fewest = wanted.div_ceil(max * max);
    for layers in fewest..=(fewest + LAYER_TRIES).min(max) {
        let fewest = wanted.div_ceil(layers * max);
        for rows in fewest..=(fewest + TRIES).min(max) {
            let columns = wanted.div_ceil(layers * rows);
            let product = columns * rows * layers;
            let better = best.is_none_or(|(least, _)| product < least);
            if better && u32::try_from(product).is_ok() {
                best = Some((product, [columns, rows, layers]));
            }
        }
        // Another layer helps only if this one did not fit.
        if best.is_some() {
            break;
        }
    }
    let dispatch = best?.1.map(|groups| u32::try_from(groups).unwrap_or(u32::MAX));
    Some(FoldedGrid { dispatch, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group that the wrapped entry point computes for the real group `id` of `dispatch`; `None` if it returns
    /// early.
    fn virtual_group(id: [u32; 3], dispatch: [u32; 3], groups: [u32; 3], base: u32, total: u32) -> Option<[u32; 3]> {
        let linear = base + id[0] + dispatch[0] * (id[1] + dispatch[1] * id[2]);
        if linear >= total {
            return None;
        }
        let row = linear / groups[0];
        Some([linear % groups[0], row % groups[1], row / groups[1]])
    }

    fn each(grid: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
        let [x, y, z] = grid;
        (0..z).flat_map(move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])))
    }

    #[test]
    fn the_block_is_laid_out_as_documented() {
        let block = grid_block([1, 2, 3], 0x0403_0201, u32::MAX);
        assert_eq!(block[..20], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4, 255, 255, 255, 255]);
        assert_eq!(block[20..], [0; 12]);
    }

    #[test]
    fn each_group_is_visited_exactly_once() {
        for groups in [[1, 1, 1], [7, 1, 1], [5, 4, 3], [1, 9, 2], [13, 1, 6], [2, 3, 50]] {
            for max in [7, 10, 23] {
                let folded = fold(groups.map(u64::from), max).expect("foldable");
                let visited =
                    each(folded.dispatch).filter_map(|id| virtual_group(id, folded.dispatch, groups, 0, folded.total));
                assert!(visited.eq(each(groups)), "{groups:?} {max}");
            }
        }
    }

    #[test]
    fn a_base_splits_a_grid_into_dispatches() {
        let (groups, total) = ([5, 4, 3], 60);
        let parts = [(0, [10, 2, 1]), (20, [5, 3, 1]), (35, [10, 3, 1])];
        let visited = parts.iter().flat_map(|&(base, dispatch)| {
            each(dispatch).filter_map(move |id| virtual_group(id, dispatch, groups, base, total))
        });
        assert!(visited.eq(each(groups)));
    }

    #[test]
    fn the_last_of_almost_2_to_the_32_groups_is_found() {
        let groups = [65_537, 3, 21_844];
        let folded = fold(groups.map(u64::from), 65_535).expect("foldable");
        let last = |[x, y, z]: [u32; 3]| [x - 1, y - 1, z - 1];
        let [columns, rows, layers] = folded.dispatch;
        let number = folded.total - 1;
        let id = [number % columns, number / columns % rows, number / columns / rows];
        assert!(id[2] < layers);
        assert_eq!(virtual_group(id, folded.dispatch, groups, 0, folded.total), Some(last(groups)));
        assert_eq!(virtual_group(last(folded.dispatch), folded.dispatch, groups, 0, folded.total - 1), None);
    }

    fn check(groups: [u64; 3], max: u32) {
        let total: u64 = groups.iter().product();
        let folded = fold(groups, max).unwrap_or_else(|| panic!("{groups:?} fits"));
        let product: u64 = folded.dispatch.iter().map(|&groups| u64::from(groups)).product();
        assert!(folded.dispatch.iter().all(|&groups| groups <= max), "{groups:?} {folded:?}");
        assert!(u64::from(folded.total) == total && product >= total && product < 1 << 32, "{groups:?} {folded:?}");
        // At most one row of each layer is padding.
        assert!(
            product - total <= u64::from(folded.dispatch[1]) * u64::from(folded.dispatch[2]),
            "{groups:?} {folded:?}"
        );
    }

    #[test]
    fn folds_are_within_the_limit_and_waste_little() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let bits = 1 + random() % 32;
            let total = random() % (1 << bits);
            // Above 65535² only totals that a few layers hold almost exactly can be folded.
            check([total.min(65_535 * 65_535), 1, 1], 65_535);
            let (x, y, z) = (random() % 1600, random() % 1600, random() % 1600);
            check([x, y, z], 65_535);
            check([random() % 900, 1, 1], 10);
        }
        for total in [0, 1, 65_534, 65_535, 65_536, 65_537, 65_535 * 65_535, (1 << 31) - 1, 1 << 31, 4_294_900_000] {
            check([total, 1, 1], 65_535);
        }
    }

    #[test]
    fn a_grid_within_the_limit_in_one_dimension_is_not_padded() {
        assert_eq!(fold([65_535, 1, 1], 65_535), Some(FoldedGrid { dispatch: [65_535, 1, 1], total: 65_535 }));
        assert_eq!(fold([100, 200, 3], 65_535), Some(FoldedGrid { dispatch: [60_000, 1, 1], total: 60_000 }));
        assert_eq!(fold([131_070, 1, 1], 65_535), Some(FoldedGrid { dispatch: [65_535, 2, 1], total: 131_070 }));
    }

    #[test]
    fn what_cannot_be_numbered_in_32_bits_is_refused() {
        assert_eq!(fold([1 << 16, 1 << 16, 1], 65_535), None);
        assert_eq!(fold([u64::MAX, u64::MAX, 2], 65_535), None);
        // 2^32 - 1 is a multiple of 65,537, a prime: no grid of smaller sides has just as many groups.
        assert_eq!(fold([(1 << 32) - 1, 1, 1], 65_535), None);
        assert_eq!(fold([1001, 1, 1], 10), None);
        assert_eq!(fold([1, 1, 1], 0), None);
    }

    #[test]
    fn a_grid_with_a_zero_is_empty_however_large_the_rest() {
        assert_eq!(fold([u64::MAX, 0, u64::MAX], 65_535), Some(FoldedGrid { dispatch: [0, 1, 1], total: 0 }));
    }
}
