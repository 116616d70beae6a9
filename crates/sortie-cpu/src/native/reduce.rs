//! Reductions of rows and columns.
//!
//! A result is combined with what is in its place, so a long row or column is reduced piece by piece. The bits of a
//! result depend on its own elements and the pieces they come in, not on other rows or columns or the instruction set.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use sortie_plan::{ElementType, Reduction};

use super::{
    function::{maximum, minimum},
    lanes::fold,
};
use crate::{
    opcode::float2,
    simd::{Simd, Vectorize},
};

/// Lanes of the search for a maximum.
const LANES: usize = 32;

/// A reduction of elements of one type: floats, or integers as their bits.
///
/// ```
/// use sortie_cpu::native::{Partial, Reducer};
/// use sortie_plan::{ElementType, Reduction};
/// let sum = Reducer::new(Reduction::Sum, ElementType::U32);
/// let (mut rows, mut columns) = ([sum.neutral(); 2], [sum.neutral(); 3]);
/// sum.rows(&[1, 2, 3, 4, 5, 6], 3, 0, &mut Partial::values(&mut rows));
/// sum.columns(&[1, 2, 3, 4, 5, 6], 0, &mut Partial::values(&mut columns));
/// assert_eq!((rows, columns), ([6, 15], [5, 7, 9]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reducer {
    f: Reduction,
    element: ElementType,
}

/// Results so far: values, and for the index of a maximum also where they are.
#[derive(Debug)]
pub struct Partial<'a> {
    /// Starts as [`Reducer::neutral`].
    best: &'a mut [u32],
    /// Starts as [`NOWHERE`]. Empty for other reductions.
    at: &'a mut [u32],
}

/// The index of a maximum before there is any.
pub const NOWHERE: u32 = u32::MAX;

impl<'a> Partial<'a> {
    /// Values only.
    pub fn values(best: &'a mut [u32]) -> Self {
        Self { best, at: &mut [] }
    }

    /// Values and their indices.
    pub fn with_indices(best: &'a mut [u32], at: &'a mut [u32]) -> Self {
        Self { best, at }
    }

    /// The same, for a range of the results.
    #[must_use]
    pub fn range(&mut self, start: usize, len: usize) -> Partial<'_> {
        let at = if self.at.is_empty() { &mut [] } else { &mut self.at[start..start + len] };
        Partial { best: &mut self.best[start..start + len], at }
    }
}

impl Reducer {
    /// A mean is reduced as a sum; [`finish`](Self::finish) divides it.
    #[must_use]
    pub fn new(f: Reduction, element: ElementType) -> Self {
        Self { f, element }
    }

    /// Whether it needs the indices of a [`Partial`].
    #[must_use]
    pub fn picks(self) -> bool {
        self.f == Reduction::ArgMax
    }

    /// The bits that combine with any value to that value.
    #[must_use]
    pub fn neutral(self) -> u32 {
        match (self.f, self.element) {
            (Reduction::Sum | Reduction::Mean, _) => 0,
            (Reduction::Min, ElementType::F32 | ElementType::F16) => f32::INFINITY.to_bits(),
            (Reduction::Min, ElementType::I32) => i32::MAX.cast_unsigned(),
            (Reduction::Min, ElementType::U32) => u32::MAX,
            (_, ElementType::F32 | ElementType::F16) => f32::NEG_INFINITY.to_bits(),
            (_, ElementType::I32) => i32::MIN.cast_unsigned(),
            (_, ElementType::U32) => 0,
        }
    }

    /// Combines each row of `row` elements with its result. `first`: the index of the first element of each row.
    pub fn rows(self, values: &[u32], row: usize, first: u32, results: &mut Partial<'_>) {
        self.rows_with(Simd::widest(), values, row, first, results);
    }

    /// Combines each row of `values`, as long as the results, element by element with the results. `first`: the index
    /// of the first row.
    pub fn columns(self, values: &[u32], first: u32, results: &mut Partial<'_>) {
        self.columns_with(Simd::widest(), values, first, results);
    }

    /// Combines results with others of the same length; those come later.
    pub fn merge(self, later: &[u32], results: &mut Partial<'_>) {
        debug_assert!(!self.picks(), "indices are not merged");
        self.columns(later, 0, results);
    }

    /// Turns sums of `each` elements into means; leaves other results.
    pub fn finish(self, each: u32, results: &mut [u32]) {
        if self.f == Reduction::Mean {
            results.iter_mut().for_each(|sum| *sum = (f32::from_bits(*sum) / each as f32).to_bits());
        }
    }

    fn rows_with(self, simd: Simd, values: &[u32], row: usize, first: u32, results: &mut Partial<'_>) {
        let Partial { best, at } = results;
        simd.run_widest(Rows { reducer: self, values, row: row.max(1), first, best, at });
    }

    fn columns_with(self, simd: Simd, values: &[u32], first: u32, results: &mut Partial<'_>) {
        let Partial { best, at } = results;
        simd.run_widest(Columns { reducer: self, values, first, best, at });
    }

    /// Passes the function that combines two elements to `to`.
    #[inline(always)]
    fn combine(self, to: impl Combine) {
        use ElementType as E;
        use Reduction as R;
        match (self.f, self.element) {
            (R::Sum | R::Mean, E::F32 | E::F16) => to.by(0, float2(|a, b| a + b)),
            (R::Sum | R::Mean, E::U32 | E::I32) => to.by(0, u32::wrapping_add),
            (R::Max | R::ArgMax, E::F32 | E::F16) => to.by(self.neutral(), float2(maximum)),
            (R::Max | R::ArgMax, E::I32) => {
                to.by(self.neutral(), |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned());
            }
            (R::Max | R::ArgMax, E::U32) => to.by(0, Ord::max),
            (R::Min, E::F32 | E::F16) => to.by(self.neutral(), float2(minimum)),
            (R::Min, E::I32) => to.by(self.neutral(), |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned()),
            (R::Min, E::U32) => to.by(u32::MAX, Ord::min),
        }
    }

    /// Passes the comparison of an index's maximum to `to`: whether the second element replaces the first, which
    /// comes earlier.
    #[inline(always)]
    fn pick(self, to: impl Pick) {
        match self.element {
            ElementType::F32 | ElementType::F16 => to.by(|a, b| {
                let (a, b) = (f32::from_bits(a), f32::from_bits(b));
                (b > a) | (b.is_nan() & !a.is_nan())
            }),
            ElementType::I32 => to.by(|a, b| b.cast_signed() > a.cast_signed()),
            ElementType::U32 => to.by(|a, b| b > a),
        }
    }
}

trait Combine {
    fn by(self, neutral: u32, both: impl Fn(u32, u32) -> u32 + Copy);
}

trait Pick {
    fn by(self, replaces: impl Fn(u32, u32) -> bool + Copy);
}

struct Rows<'a> {
    reducer: Reducer,
    values: &'a [u32],
    row: usize,
    first: u32,
    best: &'a mut [u32],
    at: &'a mut [u32],
}

impl Vectorize for Rows<'_> {
    #[inline(always)]
    fn work(self) {
        let reducer = self.reducer;
        if reducer.picks() { reducer.pick(self) } else { reducer.combine(self) }
    }
}

impl Combine for Rows<'_> {
    #[inline(always)]
    fn by(self, neutral: u32, both: impl Fn(u32, u32) -> u32 + Copy) {
        for (row, best) in self.values.chunks_exact(self.row).zip(self.best) {
            *best = both(*best, fold(row, neutral, neutral, both, both));
        }
    }
}

impl Pick for Rows<'_> {
    #[inline(always)]
    fn by(self, replaces: impl Fn(u32, u32) -> bool + Copy) {
        let rows = self.values.chunks_exact(self.row).zip(self.best.iter_mut().zip(self.at));
        for (row, (best, at)) in rows {
            let (chunks, rest) = row.as_chunks::<LANES>();
            let mut index = self.first;
            let mut take = |x: u32, i: u32| {
                if *at == NOWHERE || replaces(*best, x) {
                    (*best, *at) = (x, i);
                }
            };
            if let [start, chunks @ ..] = chunks {
                let mut lanes = *start;
                let mut places: [u32; LANES] = std::array::from_fn(|lane| lane as u32);
                for (number, chunk) in (1..).zip(chunks) {
                    for lane in 0..LANES {
                        let replaced = replaces(lanes[lane], chunk[lane]);
                        lanes[lane] = if replaced { chunk[lane] } else { lanes[lane] };
                        places[lane] = if replaced { number * LANES as u32 + lane as u32 } else { places[lane] };
                    }
                }
                let (mut most, mut place) = (lanes[0], places[0]);
                for lane in 1..LANES {
                    let (x, i) = (lanes[lane], places[lane]);
                    // Equal ones: neither replaces the other.
                    if replaces(most, x) || (!replaces(x, most) && i < place) {
                        (most, place) = (x, i);
                    }
                }
                take(most, index + place);
                index += (chunks.len() as u32 + 1) * LANES as u32;
            }
            (index..).zip(rest).for_each(|(i, x)| take(*x, i));
        }
    }
}

struct Columns<'a> {
    reducer: Reducer,
    values: &'a [u32],
    first: u32,
    best: &'a mut [u32],
    at: &'a mut [u32],
}

impl Vectorize for Columns<'_> {
    #[inline(always)]
    fn work(self) {
        let reducer = self.reducer;
        if reducer.picks() { reducer.pick(self) } else { reducer.combine(self) }
    }
}

impl Combine for Columns<'_> {
    #[inline(always)]
    fn by(self, _: u32, both: impl Fn(u32, u32) -> u32 + Copy) {
        for row in self.values.chunks_exact(self.best.len().max(1)) {
            for (best, x) in self.best.iter_mut().zip(row) {
                *best = both(*best, *x);
            }
        }
    }
}

impl Pick for Columns<'_> {
    #[inline(always)]
    fn by(self, replaces: impl Fn(u32, u32) -> bool + Copy) {
        for (index, row) in (self.first..).zip(self.values.chunks_exact(self.best.len().max(1))) {
            for ((best, at), x) in self.best.iter_mut().zip(&mut *self.at).zip(row) {
                let replaced = (*at == NOWHERE) | replaces(*best, *x);
                *best = if replaced { *x } else { *best };
                *at = if replaced { index } else { *at };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sortie_plan::{ElementType, Reduction};

    use super::{NOWHERE, Partial, Reducer};
    use crate::{instruction_set::InstructionSet, simd::Simd};

    fn data(len: usize) -> Vec<u32> {
        (0..len).map(|at| ((at * 7919 % 1999) as f32 / 100.0 - 10.0).to_bits()).collect()
    }

    fn reduced(set: InstructionSet, reducer: Reducer, values: &[u32], results: usize, columns: bool) -> [Vec<u32>; 2] {
        let (mut best, mut at) = (vec![reducer.neutral(); results], vec![NOWHERE; results]);
        let mut partial =
            if reducer.picks() { Partial::with_indices(&mut best, &mut at) } else { Partial::values(&mut best) };
        let simd = Simd::up_to(set);
        match columns {
            true => reducer.columns_with(simd, values, 0, &mut partial),
            false => reducer.rows_with(simd, values, values.len() / results, 0, &mut partial),
        }
        [best, at]
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for f in [Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::ArgMax] {
            for element in [ElementType::F32, ElementType::I32, ElementType::U32] {
                for (row, columns) in [(1, false), (15, false), (33, false), (1000, false), (7, true), (96, true)] {
                    let (reducer, x) = (Reducer::new(f, element), data(row * 6));
                    let results = if columns { row } else { 6 };
                    let all = InstructionSet::ALL.map(|set| reduced(set, reducer, &x, results, columns));
                    assert!(all.iter().all(|found| *found == all[0]), "{f:?} of {element}, {row}, columns {columns}");
                }
            }
        }
    }

    #[test]
    fn the_index_is_that_of_the_first_maximum_or_nan() {
        let reducer = Reducer::new(Reduction::ArgMax, ElementType::F32);
        for len in [1, 31, 32, 33, 64, 100, 129] {
            for (found, value) in [(len / 2, 3.0_f32), (len - 1, f32::NAN), (0, f32::NEG_INFINITY)] {
                let below = if value.is_nan() { 9.0 } else { value.min(1.0) };
                let mut x = vec![below.to_bits(); len];
                x[found..].fill(value.to_bits());
                let [_, at] = reduced(InstructionSet::Avx512, reducer, &x, 1, false);
                assert_eq!(at, [found as u32], "{value} of {len}");
                let [_, at] = reduced(InstructionSet::Avx512, reducer, &x, len, true);
                assert_eq!(at, vec![0; len], "one row");
            }
        }
    }
}
