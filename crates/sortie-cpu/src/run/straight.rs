//! Straight-line code over all lanes of a rectangle. Compiled for the plain instruction set and for AVX2.

use std::cell::Cell;

use super::{check::Checker, view::View};
use crate::{
    code::{Limit, Op, Reg},
    eval::{self, Apply1, Apply2, Apply3},
    geometry::Mode,
    lanes::{BLOCK, Block, Place, Stretch, map},
    shape::Shape,
};

/// Which blocks of lanes have an active one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// All lanes that exist are active.
    pub(crate) all: bool,
    /// By row.
    pub(crate) grid: Vec<Stretch>,
    /// The same, all rows in one line.
    pub(crate) flat: Vec<Stretch>,
}

impl Summary {
    pub(crate) fn clear(&mut self) {
        self.grid.clear();
        self.flat.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// One more block, after all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, y: u32, x: u32, columns: u32) {
        match self.grid.last_mut() {
            Some(last) if last.y == y && last.x + last.len == x => last.len += 1,
            _ => self.grid.push(Stretch { y, x, len: 1 }),
        }
        let number = y * columns + x;
        match self.flat.last_mut() {
            Some(last) if last.x + last.len == number => last.len += 1,
            _ => self.flat.push(Stretch { y: 0, x: number, len: 1 }),
        }
    }
}

/// All that straight-line code needs.
pub(crate) struct Lanes<'a, 'b> {
    pub(crate) file: &'b [Cell<Block>],
    pub(crate) places: &'b [Place],
    pub(crate) locals: &'b [(Place, u32)],
    pub(crate) local_words: &'b [u32],
    pub(crate) local_shapes: &'b [Shape],
    /// All blocks of a register, by shape.
    pub(crate) full: &'b [[Stretch; 1]; 4],
    pub(crate) summary: &'b Summary,
    pub(crate) views: &'b [View<'a>],
    pub(crate) counts: &'b [u32],
    pub(crate) immediates: &'b [u32],
    pub(crate) workgroup: &'b [Cell<u32>],
    pub(crate) workgroup_words: u32,
    pub(crate) mode: Mode,
    /// Lanes of a row that exist; blocks of a row; rows.
    pub(crate) width: u32,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    pub(crate) check: Option<&'b Checker>,
}

/// One instruction, waiting for its function.
struct Apply<'l, 'a, 'b, const N: usize> {
    lanes: &'l Lanes<'a, 'b>,
    to: Reg,
    from: [Reg; N],
    grid: bool,
}

impl<const N: usize> Apply<'_, '_, '_, N> {
    #[inline(always)]
    fn all(self, f: impl Fn([u32; N]) -> u32 + Copy) {
        let lanes = self.lanes;
        let to = lanes.place(self.to);
        let stretches = lanes.stretches(to, self.grid);
        map(lanes.file, stretches, self.grid, to, self.from.map(|reg| lanes.place(reg)), f);
    }
}

impl Apply1 for Apply<'_, '_, '_, 1> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32) -> u32 + Copy) {
        self.all(|[a]| f(a));
    }
}

impl Apply2 for Apply<'_, '_, '_, 2> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32) -> u32 + Copy) {
        self.all(|[a, b]| f(a, b));
    }
}

impl Apply3 for Apply<'_, '_, '_, 3> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) {
        self.all(|[a, b, c]| f(a, b, c));
    }
}

impl Lanes<'_, '_> {
    #[inline(always)]
    pub(crate) fn place(&self, reg: Reg) -> Place {
        self.places[reg.0 as usize]
    }

    #[inline(always)]
    fn stretches(&self, to: Place, grid: bool) -> &[Stretch] {
        match (grid, to.class == 3) {
            (true, _) => &self.summary.grid,
            (false, true) => &self.summary.flat,
            (false, false) => &self.full[usize::from(to.class)],
        }
    }

    /// Invocations of a workgroup in a row.
    pub(crate) fn local_row(&self) -> u32 {
        self.width
    }

    /// Runs instructions one after the other, each for all lanes.
    #[inline(always)]
    pub(crate) fn execute(&self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Unary { f, d, a, grid } => eval::unary(*f, Apply { lanes: self, to: *d, from: [*a], grid: *grid }),
                Op::Binary { f, d, a, b, grid } => {
                    eval::binary(*f, Apply { lanes: self, to: *d, from: [*a, *b], grid: *grid });
                }
                Op::Ternary { f, d, a, b, c, grid } => {
                    eval::ternary(*f, Apply { lanes: self, to: *d, from: [*a, *b, *c], grid: *grid });
                }
                Op::Blend { d, a, mask, grid } => {
                    Apply { lanes: self, to: *d, from: [*d, *a, *mask], grid: *grid }
                        .all(|[old, new, mask]| (new & mask) | (old & !mask));
                }
                Op::Address { d, base, index, stride, limit, grid } => {
                    let limit = match limit {
                        Limit::None => u32::MAX,
                        Limit::Fixed(limit) => *limit,
                        Limit::Count(count) => self.counts[*count as usize],
                    };
                    let stride = *stride;
                    // An address beyond 2³² wraps to all ones: out of bounds as well.
                    let place = |index: u32, base: u32| {
                        let wide = u64::from(index) * u64::from(stride) + u64::from(base);
                        let out = (index >= limit) | (base == u32::MAX) | (wide > u64::from(u32::MAX));
                        if out { u32::MAX } else { wide as u32 }
                    };
                    match base {
                        Some(base) => Apply { lanes: self, to: *d, from: [*index, *base], grid: *grid }
                            .all(|[index, base]| place(index, base)),
                        None => {
                            Apply { lanes: self, to: *d, from: [*index], grid: *grid }.all(|[index]| place(index, 0))
                        }
                    }
                }
                Op::Count { d, count } => {
                    self.file[self.place(*d).base as usize].set(Block::splat(self.counts[*count as usize]));
                }
                Op::Load(access) => {
                    if let Some(check) = self.check {
                        check.load(self, access);
                    }
                    self.load(access);
                }
                Op::Store(access) => {
                    if let Some(check) = self.check {
                        check.store(self, access);
                    }
                    self.store(access);
                }
                Op::Atomic(atomic) => {
                    if let Some(check) = self.check {
                        check.atomic(self, &atomic.access);
                    }
                    self.atomic(atomic);
                }
                Op::FillLocal { local, value, .. } => self.fill_local(*local, *value),
                Op::Broadcast { d, a } => {
                    let (to, from) = (self.place(*d), self.place(*a));
                    for y in 0..if to.class == 0 { 1 } else { self.rows } {
                        let first = self.file[from.at(y, 0)].get().0[0];
                        self.file[to.at(y, 0)].set(Block::splat(first));
                    }
                }
                Op::Set { .. } => unreachable!("a copy or a blend by now"),
            }
        }
    }

    fn fill_local(&self, local: u32, value: Reg) {
        let (place, size) = self.locals[local as usize];
        let value = self.file[self.place(value).base as usize].get();
        let blocks = self.local_words[local as usize] * size;
        self.file[place.base as usize..][..blocks as usize].iter().for_each(|block| block.set(value));
    }

    /// The lanes of `outer` for which a condition holds, or does not: their mask into a register, their blocks into a summary.
    #[inline(always)]
    pub(crate) fn narrow(
        &self,
        to: Reg,
        outer: Option<Reg>,
        entry: Option<Reg>,
        cond: Reg,
        wanted: u32,
        into: &mut Summary,
    ) {
        let to = self.place(to);
        let outer = outer.map(|reg| self.place(reg));
        let entry = entry.map(|reg| self.place(reg));
        let cond = self.place(cond);
        into.clear();
        let mut all = u32::MAX;
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                std::hint::black_box(());
                let y = stretch.y;
                let mut block = self.file[cond.at(y, x)].get();
                let mut before = Block::splat(u32::MAX);
                if let Some(place) = outer {
                    before = self.file[place.at(y, x)].get();
                }
                if let Some(place) = entry {
                    let exist = self.file[place.at(y, x)].get();
                    for lane in 0..BLOCK {
                        before.0[lane] &= exist.0[lane];
                    }
                }
                let mut any = 0;
                for lane in 0..BLOCK {
                    block.0[lane] = (block.0[lane] ^ wanted) & before.0[lane];
                    any |= block.0[lane];
                    all &= block.0[lane] | !before.0[lane];
                }
                self.file[to.at(y, x)].set(block);
                if any != 0 {
                    into.push(y, x, self.columns);
                }
            }
        }
        // All that were active still are.
        into.all = self.summary.all && all == u32::MAX;
    }

    /// No lanes, in the blocks of the summary at hand.
    pub(crate) fn none(&self, to: Reg) {
        let to = self.place(to);
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                self.file[to.at(stretch.y, x)].set(Block::ZERO);
            }
        }
    }

    /// Adds the lanes of one mask to another, in the blocks of the summary at hand. `None` is all lanes that exist.
    pub(crate) fn join(&self, to: Reg, from: Option<Reg>, entry: Reg) {
        let to = self.place(to);
        let from = self.place(from.unwrap_or(entry));
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                let mut block = self.file[to.at(stretch.y, x)].get();
                let other = self.file[from.at(stretch.y, x)].get();
                block.0.iter_mut().zip(other.0).for_each(|(lane, other)| *lane |= other);
                self.file[to.at(stretch.y, x)].set(block);
            }
        }
    }

    /// The blocks of a mask that have an active lane.
    pub(crate) fn summarise(&self, mask: Reg, entry: Reg, into: &mut Summary) {
        let mask = self.place(mask);
        let entry = self.place(entry);
        into.clear();
        let mut all = true;
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                let block = self.file[mask.at(stretch.y, x)].get();
                let exist = self.file[entry.at(stretch.y, x)].get();
                all &= block.0.iter().zip(exist.0).all(|(lane, exist)| lane & exist == exist);
                if block.0 != [0; BLOCK] {
                    into.push(stretch.y, x, self.columns);
                }
            }
        }
        into.all = self.summary.all && all;
    }
}
