//! Rows in lanes: an element is combined with the lane of its index modulo their number, and then the lanes with each
//! other.
//!
//! Invariant: the order depends on the length of the row only. With 32 lanes the compiler keeps them in registers, for
//! AVX2 and for AVX-512.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

const LANES: usize = 32;
/// Rows with fewer elements are folded one element after the other.
const SHORT: usize = 16;

/// Folds a row. Each lane starts with `start` and takes elements by `add`; `both` combines lanes. Elements beyond the
/// end are `padding`, which `add` ignores.
#[inline(always)]
pub(super) fn fold(
    row: &[u32],
    start: u32,
    padding: u32,
    add: impl Fn(u32, u32) -> u32 + Copy,
    both: impl Fn(u32, u32) -> u32 + Copy,
) -> u32 {
    if row.len() < SHORT {
        return row.iter().fold(start, |folded, x| add(folded, *x));
    }
    let mut lanes = [start; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for at in 0..LANES {
            lanes[at] = add(lanes[at], chunk[at]);
        }
    }
    if !rest.is_empty() {
        let mut chunk = [padding; LANES];
        chunk[..rest.len()].copy_from_slice(rest);
        for at in 0..LANES {
            lanes[at] = add(lanes[at], chunk[at]);
        }
    }
    across(lanes, both)
}

/// Combines all lanes.
#[inline(always)]
fn across(lanes: [u32; LANES], both: impl Fn(u32, u32) -> u32 + Copy) -> u32 {
    let mut halves = [0; 16];
    for at in 0..16 {
        halves[at] = both(lanes[at], lanes[at + 16]);
    }
    let mut quarters = [0; 8];
    for at in 0..8 {
        quarters[at] = both(halves[at], halves[at + 8]);
    }
    let mut eighths = [0; 4];
    for at in 0..4 {
        eighths[at] = both(quarters[at], quarters[at + 4]);
    }
    both(both(eighths[0], eighths[2]), both(eighths[1], eighths[3]))
}
