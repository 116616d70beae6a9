//! Straight-line code over all lanes of a rectangle. Compiled for the plain instruction set and for AVX2.
//!
//! Atomics are fences: an invocation that sees a value stored by an atomic sees everything written before it.

use std::{
    cell::Cell,
    sync::atomic::{Ordering, fence},
};

use super::{check::Checker, view::View};
use crate::{
    code::{Limit, Op, Reg, Sum},
    eval::{self, Apply1, Apply2, Apply3, One},
    geometry::Mode,
    lanes::{Along, BLOCK, Block, First, Operand, Place, Span, Stretch},
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

    /// Becomes the same, in the memory that it has.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.all = other.all;
        self.grid.clone_from(&other.grid);
        self.flat.clone_from(&other.flat);
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

/// All that straight-line code needs, the same for a whole rectangle.
pub(crate) struct Ground<'a, 'b> {
    pub(crate) file: &'b [Cell<Block>],
    pub(crate) places: &'b [Place],
    pub(crate) locals: &'b [(Place, u32)],
    pub(crate) local_words: &'b [u32],
    pub(crate) local_shapes: &'b [Shape],
    /// All blocks of a register, by shape.
    pub(crate) full: &'b [[Stretch; 1]; 4],
    /// The first block of every row.
    pub(crate) each_row: &'b [Stretch],
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
    /// A register of all ones.
    pub(crate) ones: Reg,
}

/// The ground, and which lanes are active.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a, 'b> {
    pub(crate) ground: &'b Ground<'a, 'b>,
    pub(crate) summary: &'b Summary,
    /// Lanes are not where they belong: neighbours need not be neighbours.
    pub(crate) packed: bool,
}

impl<'a, 'b> std::ops::Deref for Lanes<'a, 'b> {
    type Target = Ground<'a, 'b>;

    #[inline(always)]
    fn deref(&self) -> &Ground<'a, 'b> {
        self.ground
    }
}

/// One instruction, waiting for its function.
struct Apply<'l, 'a, 'b, const N: usize> {
    lanes: &'l Lanes<'a, 'b>,
    to: Reg,
    from: [Reg; N],
    grid: bool,
}

impl<'l, const N: usize> Apply<'l, '_, '_, N> {
    #[inline(always)]
    fn span(&self) -> Span<'l> {
        let lanes = self.lanes;
        let to = lanes.place(self.to);
        let (stretches, along) = match (self.grid, to.class == 3) {
            (false, false) => (&lanes.full[usize::from(to.class)][..], Along::Line),
            (false, true) => (&lanes.summary.flat[..], Along::Line),
            (true, _) if lanes.columns == 1 => (&lanes.summary.flat[..], Along::Column),
            (true, _) => (&lanes.summary.grid[..], Along::Rows),
        };
        Span { file: lanes.file, stretches, along, to }
    }

    #[inline(always)]
    fn place(&self, operand: usize) -> Place {
        self.lanes.place(self.from[operand])
    }
}

impl Apply1 for Apply<'_, '_, '_, 1> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32) -> u32 + Copy) {
        self.span().map1(self.place(0), f);
    }
}

impl Apply2 for Apply<'_, '_, '_, 2> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32) -> u32 + Copy) {
        self.span().map2(self.place(0), self.place(1), f);
    }
}

impl Apply3 for Apply<'_, '_, '_, 3> {
    type Out = ();
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) {
        self.span().map3(self.place(0), self.place(1), self.place(2), f);
    }
}

impl Ground<'_, '_> {
    #[inline(always)]
    pub(crate) fn place(&self, reg: Reg) -> Place {
        self.places[reg.0 as usize]
    }
}

impl Lanes<'_, '_> {
    #[inline(always)]
    fn uniform(&self, reg: Reg) -> u32 {
        self.file[self.place(reg).base as usize].first()
    }

    /// Runs instructions one after the other, each for all lanes. Who sees what an atomic stored sees all that was written before it, which is more
    /// than WGSL promises: flags and locks guard plain memory. On x86-64 that costs nothing.
    #[inline(always)]
    pub(crate) fn execute(&self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Unary { f, d, a, grid } => eval::unary(*f, Apply { lanes: self, to: *d, from: [*a], grid: *grid }),
                // What is the same for all lanes is computed once: loops count that way, and addresses.
                Op::Binary { f, d, a, b, .. } if self.place(*d).class == 0 => {
                    let operands = [self.uniform(*a), self.uniform(*b), 0];
                    self.file[self.place(*d).base as usize].set(Block::splat(eval::binary(*f, One(operands))));
                }
                Op::Binary { f, d, a, b, grid } => {
                    eval::binary(*f, Apply { lanes: self, to: *d, from: [*a, *b], grid: *grid });
                }
                Op::Ternary { f, d, a, b, c, grid } => {
                    eval::ternary(*f, Apply { lanes: self, to: *d, from: [*a, *b, *c], grid: *grid });
                }
                // Where all lanes are active, the mask may hold anything.
                Op::Blend { d, a, grid, .. } if self.summary.all => {
                    Apply { lanes: self, to: *d, from: [*a], grid: *grid }.apply(|new| new);
                }
                Op::Blend { d, a, mask, grid } => {
                    Apply { lanes: self, to: *d, from: [*d, *a, *mask], grid: *grid }
                        .apply(|old, new, mask| (new & mask) | (old & !mask));
                }
                Op::Add { f, d, a, grid, .. } if self.summary.all => {
                    let apply = Apply { lanes: self, to: *d, from: [*d, *a], grid: *grid };
                    match f {
                        Sum::Integer => apply.apply(u32::wrapping_add),
                        Sum::Float => apply.apply(|old, new| (f32::from_bits(old) + f32::from_bits(new)).to_bits()),
                    }
                }
                Op::Add { f, d, a, mask, grid } => {
                    let apply = Apply { lanes: self, to: *d, from: [*d, *a, *mask], grid: *grid };
                    match f {
                        Sum::Integer => apply.apply(|old, new, mask| old.wrapping_add(new & mask)),
                        Sum::Float => apply.apply(|old, new, mask| {
                            let sum = (f32::from_bits(old) + f32::from_bits(new)).to_bits();
                            (sum & mask) | (old & !mask)
                        }),
                    }
                }
                Op::Address { d, base, index, stride, limit, grid } => {
                    let limit = match limit {
                        Limit::None => u32::MAX,
                        Limit::Fixed(limit) => *limit,
                        Limit::Count(count) => self.counts[*count as usize],
                    };
                    let stride = *stride;
                    // In bounds, it is less than the size of the memory: nothing wraps.
                    let place = |index: u32, base: u32| {
                        let out = (index >= limit) | (base == u32::MAX);
                        let at = index.wrapping_mul(stride).wrapping_add(base);
                        if out { u32::MAX } else { at }
                    };
                    match base {
                        Some(base) => Apply { lanes: self, to: *d, from: [*index, *base], grid: *grid }.apply(place),
                        None => {
                            Apply { lanes: self, to: *d, from: [*index], grid: *grid }.apply(|index| place(index, 0));
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
                    if access.atomic {
                        fence(Ordering::Acquire);
                    }
                }
                Op::Store(access) => {
                    if let Some(check) = self.check {
                        check.store(self, access);
                    }
                    if access.atomic {
                        fence(Ordering::Release);
                    }
                    self.store(access);
                }
                Op::Atomic(atomic) => {
                    if let Some(check) = self.check {
                        check.atomic(self, &atomic.access);
                    }
                    fence(Ordering::Release);
                    self.atomic(atomic);
                    fence(Ordering::Acquire);
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
        let cond = self.place(cond);
        // One of them stands in for the other where there is only one, or none: all lanes of a row that varies by row exist.
        let ones = self.place(self.ones);
        let outer = outer.map_or(ones, |reg| self.place(reg));
        let entry = entry.map_or(ones, |reg| self.place(reg));
        // What is per row or column is blended as a whole, so its mask has to be right where no lane is active, too.
        let wide = to.class == 3;
        let partial = |place: Place| place.class == 1 || place.class == 2;
        let (blocks, along) = match wide {
            false => (&self.full[usize::from(to.class)][..], Along::Line),
            true if !(partial(cond) || partial(outer) || partial(entry)) => (&self.summary.flat[..], Along::Line),
            true if self.columns == 1 => (&self.summary.flat[..], Along::Column),
            true => (&self.summary.grid[..], Along::Rows),
        };
        let mut lost = Block::ZERO;
        let mut emptied = false;
        for stretch in blocks {
            let operand = |place| Operand::new(self.file, place, *stretch, along);
            let (outer, entry, cond) = (operand(outer), operand(entry), operand(cond));
            let Operand::Many(to) = operand(Place { step: 1, ..to }) else { unreachable!("a mask varies") };
            let mut keep = |to: &Cell<Block>, outer: [u32; BLOCK], entry: [u32; BLOCK], cond: [u32; BLOCK]| {
                std::hint::black_box(());
                let mut block = Block::ZERO;
                for lane in 0..BLOCK {
                    let before = outer[lane] & entry[lane];
                    block.0[lane] = (cond[lane] ^ wanted) & before;
                    lost.0[lane] |= before & !block.0[lane];
                }
                emptied |= !any(&block);
                to.set(block);
            };
            // What loops do, time after time.
            if let (Operand::Many(outer), Operand::One(entry), Operand::Many(cond)) = (outer, entry, cond) {
                let entry = entry.get().0;
                for ((to, outer), cond) in to.iter().zip(outer).zip(cond) {
                    keep(to, outer.get().0, entry, cond.get().0);
                }
                continue;
            }
            let at = |operand: Operand<'_>, index: usize| match operand {
                Operand::One(block) => block.get().0,
                Operand::Many(blocks) => blocks[index].get().0,
            };
            for (index, to) in to.iter().enumerate() {
                keep(to, at(outer, index), at(entry, index), at(cond, index));
            }
        }
        // All that were active still are, or some of each block.
        if !any(&lost) || wide && !emptied {
            into.copy_from(self.summary);
            into.all &= !any(&lost);
            return;
        }
        into.clear();
        into.all = false;
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                if any(&self.file[to.at(stretch.y, x)].get()) {
                    into.push(stretch.y, x, self.columns);
                }
            }
        }
    }

    /// All blocks of a shape, as rows and columns.
    #[inline(always)]
    fn all_of(&self, class: u8) -> &[Stretch] {
        match class {
            2 => self.each_row,
            class => &self.full[usize::from(class)],
        }
    }

    /// No lanes, in the blocks of the summary at hand.
    pub(crate) fn none(&self, to: Reg) {
        let to = self.place(to);
        let blocks = if to.class == 3 { &self.summary.grid[..] } else { self.all_of(to.class) };
        for stretch in blocks {
            for x in stretch.x..stretch.x + stretch.len {
                self.file[to.at(stretch.y, x)].set(Block::ZERO);
            }
        }
    }

    /// Adds the lanes of one mask to another, in the blocks of the summary at hand. `None` is all lanes that exist.
    pub(crate) fn join(&self, to: Reg, from: Option<Reg>, entry: Reg) {
        let to = self.place(to);
        let entry = self.place(entry);
        let from = from.map_or(entry, |from| self.place(from));
        // A mask by row does not know which lanes exist.
        let exist = if from.across == 0 && to.across != 0 { entry } else { from };
        for stretch in &self.summary.grid {
            for x in stretch.x..stretch.x + stretch.len {
                let mut block = self.file[to.at(stretch.y, x)].get();
                let other = self.file[from.at(stretch.y, x)].get().0;
                let exist = self.file[exist.at(stretch.y, x)].get().0;
                block.0.iter_mut().zip(other).zip(exist).for_each(|((lane, other), exist)| *lane |= other & exist);
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
                if any(&block) {
                    into.push(stretch.y, x, self.columns);
                }
            }
        }
        into.all = self.summary.all && all;
    }
}

/// Whether any bit is set.
#[inline(always)]
fn any(block: &Block) -> bool {
    let mut sum = [0; BLOCK / 2];
    for (lane, sum) in sum.iter_mut().enumerate() {
        *sum = block.0[lane] | block.0[lane + BLOCK / 2];
    }
    let mut bits = 0;
    for lane in sum {
        bits |= lane;
    }
    bits != 0
}
