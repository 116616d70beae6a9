//! Grids over the device's limit, run as a smaller one: the real grid to dispatch, and the block of parameters from which the
//! wrapped entry point (see `rewrite`) finds the group that each real group stands for.
//!
//! Invariant: a [`Fold`] has at least as many groups as the grid, and fewer than 2^32, so that a group's linear number is a
//! `u32` that never wraps. Groups past `total` return at once.

/// Bytes of the parameter block.
pub(crate) const GRID_BLOCK: u64 = 32;

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
pub(crate) fn grid_block(groups: [u32; 3], base: u32, total: u32) -> [u8; GRID_BLOCK as usize] {
    let mut block = [0; GRID_BLOCK as usize];
    let fields = [groups[0], groups[1], groups[2], base, total];
    for (bytes, field) in block.chunks_exact_mut(4).zip(fields) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    block
}

/// A grid that a device can dispatch, standing for one that it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(crate) dispatch: [u32; 3],
    /// Groups of the grid that it stands for.
    pub(crate) total: u32,
}

/// How many row counts, and then layer counts, are tried for one that wastes less.
const TRIES: u64 = 64;
const LAYER_TRIES: u64 = 4;

/// Folds `groups` into a grid with at most `max` groups in each dimension; `None` when there are 2^32 groups or more, or so
/// few less that no such grid holds them without reaching 2^32 itself.
pub(crate) fn fold(groups: [u64; 3], max: u32) -> Option<Fold> {
    let total = groups.iter().try_fold(1u64, |product, &groups| product.checked_mul(groups));
    // A zero makes the grid empty even where the other two overflow.
    let total = if groups.contains(&0) { 0 } else { u32::try_from(total?).ok()? };
    if total <= max {
        return Some(Fold { dispatch: [total, 1, 1], total });
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
        // Another layer is only worth it where this one did not fit.
        if best.is_some() {
            break;
        }
    }
    let dispatch = best?.1.map(|groups| u32::try_from(groups).unwrap_or(u32::MAX));
    Some(Fold { dispatch, total })
}
