//! Straight-line code over all lanes of a rectangle. Compiled for the plain instruction set and for AVX2.
//!
//! Atomics are fences: an invocation that sees a value stored by an atomic sees everything written before it.

use std::{
    cell::Cell,
    sync::atomic::{Ordering, fence},
};

use super::{
    check::{AccessKind, Checker},
    view::View,
    walk::Narrow,
};
use crate::{
    code::{Access, Blend, Limit, Op, Reg},
    compiled::Compiled,
    lanes::{BLOCK, Block, BlockLayout, BlockLoop, BlockOrder, BlockRange, First, Operand},
    opcode::{Apply, float2},
};

/// Which blocks of lanes have an active one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveBlocks {
    /// All lanes that exist are active.
    pub(crate) all: bool,
    /// By row.
    pub(crate) grid: Vec<BlockRange>,
    /// The same, all rows in one line.
    pub(crate) flat: Vec<BlockRange>,
}

impl ActiveBlocks {
    pub(crate) fn clear(&mut self) {
        self.grid.clear();
        self.flat.clear();
    }

    /// Copies `other`, reusing the allocation.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.all = other.all;
        self.grid.clone_from(&other.grid);
        self.flat.clone_from(&other.flat);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// Appends a block, which is after all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, y: u32, x: u32, columns: u32) {
        match self.grid.last_mut() {
            Some(last) if last.y == y && last.x + last.len == x => last.len += 1,
            _ => self.grid.push(BlockRange { y, x, len: 1 }),
        }
        let number = y * columns + x;
        match self.flat.last_mut() {
            Some(last) if last.x + last.len == number => last.len += 1,
            _ => self.flat.push(BlockRange { y: 0, x: number, len: 1 }),
        }
    }
}

/// The state that straight-line code uses, the same for a whole rectangle.
pub(crate) struct RectangleState<'a, 'b> {
    pub(crate) code: &'b Compiled,
    pub(crate) file: &'b [Cell<Block>],
    pub(crate) places: &'b [BlockLayout],
    pub(crate) locals: &'b [(BlockLayout, u32)],
    /// All blocks of a register, by shape.
    pub(crate) full: &'b [[BlockRange; 1]; 4],
    /// The first block of every row.
    pub(crate) each_row: &'b [BlockRange],
    pub(crate) views: &'b [View<'a>],
    pub(crate) counts: &'b [u32],
    pub(crate) immediates: &'b [u32],
    pub(crate) workgroup: &'b [Cell<u32>],
    /// Lanes of a row that exist; blocks of a row; rows.
    pub(crate) width: u32,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    pub(crate) check: Option<&'b Checker>,
}

/// The rectangle, and which lanes are active.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a, 'b> {
    pub(crate) rectangle: &'b RectangleState<'a, 'b>,
    pub(crate) summary: &'b ActiveBlocks,
    /// Lanes are packed: adjacent lanes need not be adjacent invocations.
    pub(crate) packed: bool,
}

impl<'a, 'b> std::ops::Deref for Lanes<'a, 'b> {
    type Target = RectangleState<'a, 'b>;

    #[inline(always)]
    fn deref(&self) -> &RectangleState<'a, 'b> {
        self.rectangle
    }
}

/// One instruction without its function, which is applied to it.
struct Instruction<'l, 'a, 'b> {
    lanes: &'l Lanes<'a, 'b>,
    to: Reg,
    from: [Reg; 3],
}

impl<'l> Instruction<'l, '_, '_> {
    #[inline(always)]
    fn place(&self, operand: usize) -> BlockLayout {
        self.lanes.place(self.from[operand])
    }

    #[inline(always)]
    fn first(&self, place: BlockLayout) -> u32 {
        self.lanes.file[place.base as usize].first()
    }

    /// Uniform results (loop counters, addresses) are computed once.
    #[inline(always)]
    fn is_uniform(&self) -> bool {
        self.lanes.place(self.to).class == 0
    }

    #[inline(always)]
    fn set_uniform(&self, value: u32) {
        self.lanes.file[self.lanes.place(self.to).base as usize].set(Block::splat(value));
    }

    /// The blocks to loop over. `partial`: an operand has one block per row or per column.
    #[inline(always)]
    fn blocks(&self, partial: bool) -> BlockLoop<'l> {
        let lanes = self.lanes;
        let to = lanes.place(self.to);
        let (ranges, along) = match to.class {
            3 => lanes.lane_blocks(partial),
            class => (&lanes.full[usize::from(class)][..], BlockOrder::Line),
        };
        BlockLoop { file: lanes.file, ranges, along, to }
    }
}

impl Apply for Instruction<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn one(self, f: impl Fn(u32) -> u32 + Copy) {
        let a = self.place(0);
        match self.is_uniform() {
            true => self.set_uniform(f(self.first(a))),
            false => self.blocks(a.is_partial()).map1(a, f),
        }
    }

    #[inline(always)]
    fn two(self, f: impl Fn(u32, u32) -> u32 + Copy) {
        let (a, b) = (self.place(0), self.place(1));
        match self.is_uniform() {
            true => self.set_uniform(f(self.first(a), self.first(b))),
            false => self.blocks(a.is_partial() | b.is_partial()).map2(a, b, f),
        }
    }

    #[inline(always)]
    fn three(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) {
        let (a, b, c) = (self.place(0), self.place(1), self.place(2));
        match self.is_uniform() {
            true => self.set_uniform(f(self.first(a), self.first(b), self.first(c))),
            false => self.blocks(a.is_partial() | b.is_partial() | c.is_partial()).map3(a, b, c, f),
        }
    }
}

impl RectangleState<'_, '_> {
    #[inline(always)]
    pub(crate) fn place(&self, reg: Reg) -> BlockLayout {
        self.places[reg.0 as usize]
    }

    /// The block of a register for the lanes of a row at a column of blocks.
    #[inline(always)]
    pub(crate) fn cell(&self, reg: Reg, y: u32, x: u32) -> &Cell<Block> {
        &self.file[self.place(reg).at(y, x)]
    }

    /// The number of elements that an index may reach in this run.
    #[inline(always)]
    pub(super) fn limit(&self, limit: Limit) -> u32 {
        match limit {
            Limit::None => u32::MAX,
            Limit::Fixed(limit) => limit,
            Limit::Count(count) => self.counts[count as usize],
        }
    }
}

impl<'b> Lanes<'_, 'b> {
    /// The active blocks of a register per lane, in the order that operands of other shapes need.
    #[inline(always)]
    fn lane_blocks(&self, partial: bool) -> (&'b [BlockRange], BlockOrder) {
        match partial {
            false => (&self.summary.flat, BlockOrder::Line),
            true if self.columns == 1 => (&self.summary.flat, BlockOrder::Column),
            true => (&self.summary.grid, BlockOrder::Rows),
        }
    }

    /// Runs instructions one after the other, each for all lanes. An atomic load that sees a stored value also sees
    /// everything written before it, which is more than WGSL promises: flags and locks protect plain memory. On x86-64
    /// that costs nothing.
    #[inline(always)]
    pub(crate) fn execute(&self, ops: &[Op]) {
        let into = |to: Reg, from: [Reg; 3]| Instruction { lanes: self, to, from };
        for op in ops {
            match op {
                Op::Compute { opcode, d, from } => opcode.apply(into(*d, *from)),
                // Where all lanes are active, the mask is undefined.
                Op::Blend { f, d, a, .. } if self.summary.all => match f {
                    Blend::Assign => into(*d, [*a; 3]).one(|new| new),
                    Blend::AddI => into(*d, [*d, *a, *a]).two(u32::wrapping_add),
                    Blend::AddF => into(*d, [*d, *a, *a]).two(float2(|old, new| old + new)),
                },
                Op::Blend { f, d, a, mask } => {
                    let blend = into(*d, [*d, *a, *mask]);
                    match f {
                        Blend::Assign => blend.three(|old, new, mask| (new & mask) | (old & !mask)),
                        Blend::AddI => blend.three(|old, new, mask| old.wrapping_add(new & mask)),
                        Blend::AddF => blend.three(|old, new, mask| {
                            let sum = (f32::from_bits(old) + f32::from_bits(new)).to_bits();
                            (sum & mask) | (old & !mask)
                        }),
                    }
                }
                Op::Address { d, base, index, stride, limit } => {
                    let limit = self.limit(*limit);
                    let stride = *stride;
                    // In bounds, it is less than the size of the memory: nothing wraps.
                    let place = |index: u32, base: u32| {
                        let out = (index >= limit) | (base == u32::MAX);
                        let at = index.wrapping_mul(stride).wrapping_add(base);
                        if out { u32::MAX } else { at }
                    };
                    match base {
                        Some(base) => into(*d, [*index, *base, *base]).two(place),
                        None => into(*d, [*index; 3]).one(|index| place(index, 0)),
                    }
                }
                Op::Count { d, count } => {
                    self.file[self.place(*d).base as usize].set(Block::splat(self.counts[*count as usize]));
                }
                Op::Load(access) => {
                    self.check_access(access, AccessKind::Read, access.atomic);
                    self.load(access);
                    if access.atomic {
                        fence(Ordering::Acquire);
                    }
                }
                Op::Store(access) => {
                    self.check_access(access, AccessKind::Write, access.atomic);
                    if access.atomic {
                        fence(Ordering::Release);
                    }
                    self.store(access);
                }
                Op::Atomic(atomic) => {
                    self.check_access(&atomic.access, AccessKind::Write, true);
                    fence(Ordering::Release);
                    self.atomic(atomic);
                    fence(Ordering::Acquire);
                }
                Op::Wide(wide) => self.wide(wide),
                Op::Subgroup(subgroup) => self.subgroup(subgroup),
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

    #[inline(always)]
    fn check_access(&self, access: &Access, act: AccessKind, atomic: bool) {
        if let Some(check) = self.check {
            check.access(self, access, act, atomic);
        }
    }

    fn fill_local(&self, local: u32, value: Reg) {
        let (place, size) = self.locals[local as usize];
        let value = self.file[self.place(value).base as usize].get();
        let blocks = self.code.file.locals[local as usize].words * size;
        self.file[place.base as usize..][..blocks as usize].iter().for_each(|block| block.set(value));
    }

    /// Selects the lanes of a mask for which a condition holds, or does not.
    #[inline(always)]
    pub(super) fn narrow(&self, Narrow { to, outer, entry, cond, wanted, into, .. }: Narrow<'_>) {
        let to = self.place(to);
        let cond = self.place(cond);
        // A missing mask is all ones: all lanes of a mask that varies by row exist.
        let [outer, entry] = [outer, entry].map(|mask| self.place(mask.unwrap_or(self.code.ones)));
        let flip = if wanted { 0 } else { u32::MAX };
        // Values per row or column are blended as a whole, so their mask must be valid where no lane is active, too.
        let wide = to.class == 3;
        let (blocks, along) = match to.class {
            3 => self.lane_blocks([cond, outer, entry].iter().any(BlockLayout::is_partial)),
            class => (&self.full[usize::from(class)][..], BlockOrder::Line),
        };
        let mut lost = Block::ZERO;
        let mut emptied = false;
        for range in blocks {
            let operand = |place| Operand::new(self.file, place, *range, along);
            let (outer, entry, cond) = (operand(outer), operand(entry), operand(cond));
            let Operand::Many(to) = operand(BlockLayout { step: 1, ..to }) else { unreachable!("a mask varies") };
            let mut keep = |to: &Cell<Block>, outer: [u32; BLOCK], entry: [u32; BLOCK], cond: [u32; BLOCK]| {
                std::hint::black_box(());
                let mut block = Block::ZERO;
                for lane in 0..BLOCK {
                    let before = outer[lane] & entry[lane];
                    block.0[lane] = (cond[lane] ^ flip) & before;
                    lost.0[lane] |= before & !block.0[lane];
                }
                emptied |= !any(&block);
                to.set(block);
            };
            // The usual case in loops.
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
        for range in &self.summary.grid {
            for x in range.columns() {
                if any(&self.file[to.at(range.y, x)].get()) {
                    into.push(range.y, x, self.columns);
                }
            }
        }
    }

    /// All blocks of a shape, as rows and columns.
    #[inline(always)]
    pub(super) fn all_of(&self, class: u8) -> &[BlockRange] {
        match class {
            2 => self.each_row,
            class => &self.full[usize::from(class)],
        }
    }

    /// Clears a mask in the current active blocks.
    pub(crate) fn none(&self, to: Reg) {
        let to = self.place(to);
        let blocks = if to.class == 3 { &self.summary.grid[..] } else { self.all_of(to.class) };
        for range in blocks {
            for x in range.columns() {
                self.file[to.at(range.y, x)].set(Block::ZERO);
            }
        }
    }

    /// Adds the lanes of one mask to another, in the current active blocks. `None`: all lanes that exist.
    pub(crate) fn join(&self, to: Reg, from: Option<Reg>, entry: Reg) {
        let to = self.place(to);
        let entry = self.place(entry);
        let from = from.map_or(entry, |from| self.place(from));
        // A mask by row has no bit per lane: it includes lanes that do not exist.
        let exist = if from.across == 0 && to.across != 0 { entry } else { from };
        for range in &self.summary.grid {
            for x in range.columns() {
                let mut block = self.file[to.at(range.y, x)].get();
                let other = self.file[from.at(range.y, x)].get().0;
                let exist = self.file[exist.at(range.y, x)].get().0;
                block.0.iter_mut().zip(other).zip(exist).for_each(|((lane, other), exist)| *lane |= other & exist);
                self.file[to.at(range.y, x)].set(block);
            }
        }
    }

    /// The blocks of a mask that have an active lane.
    pub(crate) fn summarise(&self, mask: Reg, entry: Reg, into: &mut ActiveBlocks) {
        let mask = self.place(mask);
        let entry = self.place(entry);
        into.clear();
        let mut all = true;
        for range in &self.summary.grid {
            for x in range.columns() {
                let block = self.file[mask.at(range.y, x)].get();
                let exist = self.file[entry.at(range.y, x)].get();
                all &= block.0.iter().zip(exist.0).all(|(lane, exist)| lane & exist == exist);
                if any(&block) {
                    into.push(range.y, x, self.columns);
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
