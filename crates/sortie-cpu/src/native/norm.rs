//! Normalizations of rows.
//!
//! Invariant: the bits of a row's result depend on the row only, not on the rows beside it or the instruction set.
//! Sums are those of [`fold`].

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use sortie_plan::Norm;

use super::lanes::fold;
use crate::{
    math,
    simd::{Simd, Vectorize},
};

/// Normalizes rows of `row` floats, given as their bits.
///
/// The rows are read from `from` and written to `to`, which is as long; without `from`, they are normalized in place.
/// `epsilon` is not used by softmax.
///
/// ```
/// use sortie_cpu::native::normalize;
/// use sortie_plan::Norm;
/// let x = [1.0_f32, 3.0, 2.0, 6.0].map(f32::to_bits);
/// let mut y = [0; 4];
/// normalize(Norm::Layer, 0.0, 2, Some(&x), &mut y);
/// assert_eq!(y.map(f32::from_bits), [-1.0, 1.0, -1.0, 1.0]);
/// ```
pub fn normalize(f: Norm, epsilon: f32, row: usize, from: Option<&[u32]>, to: &mut [u32]) {
    normalize_with(Simd::widest(), f, epsilon, row, from, to);
}

pub(super) fn normalize_with(simd: Simd, f: Norm, epsilon: f32, row: usize, from: Option<&[u32]>, to: &mut [u32]) {
    simd.run_widest(Rows { f, epsilon, row: row.max(1), from, to });
}

struct Rows<'a> {
    f: Norm,
    epsilon: f32,
    row: usize,
    from: Option<&'a [u32]>,
    to: &'a mut [u32],
}

impl Vectorize for Rows<'_> {
    #[inline(always)]
    fn work(self) {
        let Self { f, epsilon, row, from, to } = self;
        let mut sources = from.map(|from| from.chunks_exact(row));
        for to in to.chunks_exact_mut(row) {
            let from = sources.as_mut().and_then(Iterator::next);
            match f {
                Norm::Softmax => below_top(from, to),
                Norm::Layer => layer(epsilon, from, to),
                Norm::RootMeanSquare => root_mean_square(epsilon, from, to),
            }
        }
        if f == Norm::Softmax {
            // All rows at once: short rows alone would be no vector code.
            map(None, to, math::exp);
            to.chunks_exact_mut(row).for_each(to_shares);
        }
    }
}

/// Differences to the maximum. A NaN is no maximum, but makes the sum NaN and so every result.
#[inline(always)]
fn below_top(from: Option<&[u32]>, to: &mut [u32]) {
    let lowest = f32::NEG_INFINITY.to_bits();
    let top = f32::from_bits(fold(from.unwrap_or(to), lowest, lowest, larger, larger));
    map(from, to, |x| x - top);
}

/// At least one of the exponentials is 1, so their sum is a normal number.
#[inline(always)]
fn to_shares(row: &mut [u32]) {
    let by = 1.0 / f32::from_bits(fold(row, 0, 0, plus, plus));
    map(None, row, |x| x * by);
}

#[inline(always)]
fn layer(epsilon: f32, from: Option<&[u32]>, to: &mut [u32]) {
    let values = from.unwrap_or(to);
    let len = values.len() as f32;
    let mean = f32::from_bits(fold(values, 0, 0, plus, plus)) / len;
    let add_square = |sum: u32, x: u32| {
        let d = f32::from_bits(x) - mean;
        (f32::from_bits(sum) + d * d).to_bits()
    };
    let squares = f32::from_bits(fold(values, 0, mean.to_bits(), add_square, plus));
    let by = 1.0 / (squares / len + epsilon).sqrt();
    map(from, to, |x| (x - mean) * by);
}

#[inline(always)]
fn root_mean_square(epsilon: f32, from: Option<&[u32]>, to: &mut [u32]) {
    let values = from.unwrap_or(to);
    let add_square = |sum: u32, x: u32| (f32::from_bits(sum) + f32::from_bits(x) * f32::from_bits(x)).to_bits();
    let squares = f32::from_bits(fold(values, 0, 0, add_square, plus));
    let by = 1.0 / (squares / values.len() as f32 + epsilon).sqrt();
    map(from, to, |x| x * by);
}

#[inline(always)]
fn plus(a: u32, b: u32) -> u32 {
    (f32::from_bits(a) + f32::from_bits(b)).to_bits()
}

/// One `maxps`: not NaN if the first is none.
#[inline(always)]
fn larger(a: u32, b: u32) -> u32 {
    if f32::from_bits(b) > f32::from_bits(a) { b } else { a }
}

/// Applies a function to each element. Without `from`, in place.
#[inline(always)]
fn map(from: Option<&[u32]>, to: &mut [u32], f: impl Fn(f32) -> f32) {
    match from {
        Some(from) => to.iter_mut().zip(from).for_each(|(to, x)| *to = f(f32::from_bits(*x)).to_bits()),
        None => to.iter_mut().for_each(|to| *to = f(f32::from_bits(*to)).to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use sortie_plan::Norm;

    use super::normalize_with;
    use crate::{instruction_set::InstructionSet, simd::Simd};

    const NORMS: [Norm; 3] = [Norm::Softmax, Norm::Layer, Norm::RootMeanSquare];

    fn data(len: usize) -> Vec<u32> {
        (0..len).map(|at| ((at * 7919 % 1999) as f32 / 100.0 - 10.0).to_bits()).collect()
    }

    fn normed(set: InstructionSet, f: Norm, row: usize, from: &[u32]) -> Vec<u32> {
        let mut to = vec![0; from.len()];
        normalize_with(Simd::up_to(set), f, 1e-5, row, Some(from), &mut to);
        to
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for f in NORMS {
            for row in [1, 2, 15, 16, 31, 32, 33, 128, 385, 1000] {
                let x = data(4 * row);
                let all = InstructionSet::ALL.map(|set| normed(set, f, row, &x));
                assert!(all.iter().all(|found| *found == all[0]), "{f:?} of rows of {row}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_place_and_alone() {
        for f in NORMS {
            for row in [1, 7, 32, 100] {
                let x = data(5 * row);
                let all = normed(InstructionSet::Avx512, f, row, &x);
                let mut in_place = x.clone();
                normalize_with(Simd::widest(), f, 1e-5, row, None, &mut in_place);
                assert_eq!(all, in_place, "{f:?} of rows of {row}");
                let alone = x.chunks(row).flat_map(|x| normed(InstructionSet::Avx512, f, row, x));
                assert_eq!(all, alone.collect::<Vec<_>>(), "{f:?} of rows of {row}");
            }
        }
    }
}
