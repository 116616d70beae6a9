//! Blocks of lanes, and the registers made of them.

#![expect(clippy::needless_range_loop, reason = "loops over lanes are written the way that becomes SIMD")]

use std::cell::Cell;

/// Lanes of a block: two AVX2 registers, and short enough to load, compute and store in place.
pub(crate) const BLOCK: usize = 16;

/// The same register of consecutive lanes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block(pub(crate) [u32; BLOCK]);

impl Block {
    pub(crate) const ZERO: Self = Self([0; BLOCK]);

    #[inline(always)]
    pub(crate) fn splat(value: u32) -> Self {
        Self([value; BLOCK])
    }

    /// One bit for each lane whose sign bit is set.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u32 {
        let mut bits = 0;
        for (lane, value) in self.0.iter().enumerate() {
            bits |= (value >> 31) << lane;
        }
        bits
    }
}

/// The first lane of a block, without the others.
pub(crate) trait First {
    fn first(&self) -> u32;
}

impl First for Cell<Block> {
    #[inline(always)]
    fn first(&self) -> u32 {
        self.get().0[0]
    }
}

/// Where a register's blocks are, and how they follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockLayout {
    pub(crate) base: u32,
    /// Distance from one block of the register to the next: 0 if there is only one.
    pub(crate) step: u32,
    /// From one column of blocks, or row of lanes, to the next.
    pub(crate) across: u32,
    pub(crate) down: u32,
    pub(crate) class: u8,
}

/// Neighbouring blocks of a row. In lists that ignore rows, `x` counts all blocks and `y` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRange {
    pub(crate) y: u32,
    pub(crate) x: u32,
    pub(crate) len: u32,
}

impl BlockRange {
    /// The columns of its blocks.
    #[inline(always)]
    pub(crate) fn columns(self) -> std::ops::Range<u32> {
        self.x..self.x + self.len
    }
}

impl BlockLayout {
    /// Whether it has one block per row or per column.
    #[inline(always)]
    pub(crate) fn is_partial(&self) -> bool {
        self.class == 1 || self.class == 2
    }

    #[inline(always)]
    pub(crate) fn at(&self, y: u32, x: u32) -> usize {
        (self.base + y * self.down + x * self.across) as usize
    }

    #[inline(always)]
    fn start(&self, range: BlockRange, along: BlockOrder) -> usize {
        match along {
            BlockOrder::Line => (self.base + range.x * self.step) as usize,
            BlockOrder::Rows => self.at(range.y, range.x),
            BlockOrder::Column => (self.base + range.x * self.down) as usize,
        }
    }
}

/// How a loop goes over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOrder {
    /// In the order they have in the register: all operands have the same shape, or one block.
    Line,
    /// Row by row: an operand is per row or per column.
    Rows,
    /// As `Rows`, for rows of one block.
    Column,
}

/// One operand of a loop over blocks: all its blocks, or the one that stands for all.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'f> {
    One(&'f Cell<Block>),
    Many(&'f [Cell<Block>]),
}

impl<'f> Operand<'f> {
    #[inline(always)]
    pub(crate) fn new(file: &'f [Cell<Block>], place: BlockLayout, range: BlockRange, along: BlockOrder) -> Self {
        let step = match along {
            BlockOrder::Line => place.step,
            BlockOrder::Rows => place.across,
            BlockOrder::Column => place.down,
        };
        let start = place.start(range, along);
        if step == 0 { Self::One(&file[start]) } else { Self::Many(&file[start..start + range.len as usize]) }
    }
}

/// What to loop over: the registers, and the blocks that matter.
#[derive(Clone, Copy)]
pub(crate) struct BlockLoop<'f> {
    pub(crate) file: &'f [Cell<Block>],
    pub(crate) ranges: &'f [BlockRange],
    pub(crate) along: BlockOrder,
    pub(crate) to: BlockLayout,
}

/// One block, lane by lane.
///
/// `black_box` keeps the compiler from unrolling the lanes and vectorising over blocks instead, which is five times
/// slower. It costs no instruction.
macro_rules! lanes {
    ($to:expr, $lane:ident => $value:expr) => {{
        std::hint::black_box(());
        let mut result = Block::ZERO;
        for $lane in 0..BLOCK {
            result.0[$lane] = $value;
        }
        $to.set(result);
    }};
}

impl<'f> BlockLoop<'f> {
    #[inline(always)]
    fn target(&self, range: BlockRange) -> &'f [Cell<Block>] {
        let start = self.to.start(range, self.along);
        &self.file[start..start + range.len as usize]
    }

    #[inline(always)]
    fn operand(&self, place: BlockLayout, range: BlockRange) -> Operand<'f> {
        Operand::new(self.file, place, range, self.along)
    }

    /// Applies a function to every lane. Written out for the numbers of operands and for which of them stay the same:
    /// the loops are where the time goes.
    #[inline(always)]
    pub(crate) fn map1(self, a: BlockLayout, f: impl Fn(u32) -> u32 + Copy) {
        for range in self.ranges {
            let to = self.target(*range);
            match self.operand(a, *range) {
                Operand::Many(a) => {
                    for (to, a) in to.iter().zip(a) {
                        let a = a.get().0;
                        lanes!(to, lane => f(a[lane]));
                    }
                }
                Operand::One(a) => {
                    let a = a.get().0;
                    let mut result = Block::ZERO;
                    for lane in 0..BLOCK {
                        result.0[lane] = f(a[lane]);
                    }
                    to.iter().for_each(|to| to.set(result));
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn map2(self, a: BlockLayout, b: BlockLayout, f: impl Fn(u32, u32) -> u32 + Copy) {
        for range in self.ranges {
            let to = self.target(*range);
            match (self.operand(a, *range), self.operand(b, *range)) {
                (Operand::Many(a), Operand::Many(b)) => {
                    for ((to, a), b) in to.iter().zip(a).zip(b) {
                        let (a, b) = (a.get().0, b.get().0);
                        lanes!(to, lane => f(a[lane], b[lane]));
                    }
                }
                (Operand::Many(a), Operand::One(b)) => {
                    let b = b.get().0;
                    for (to, a) in to.iter().zip(a) {
                        let a = a.get().0;
                        lanes!(to, lane => f(a[lane], b[lane]));
                    }
                }
                (Operand::One(a), Operand::Many(b)) => {
                    let a = a.get().0;
                    for (to, b) in to.iter().zip(b) {
                        let b = b.get().0;
                        lanes!(to, lane => f(a[lane], b[lane]));
                    }
                }
                (Operand::One(a), Operand::One(b)) => {
                    let (a, b) = (a.get().0, b.get().0);
                    let mut result = Block::ZERO;
                    for lane in 0..BLOCK {
                        result.0[lane] = f(a[lane], b[lane]);
                    }
                    to.iter().for_each(|to| to.set(result));
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn map3(self, a: BlockLayout, b: BlockLayout, c: BlockLayout, f: impl Fn(u32, u32, u32) -> u32 + Copy) {
        for range in self.ranges {
            let to = self.target(*range);
            match (self.operand(a, *range), self.operand(b, *range), self.operand(c, *range)) {
                (Operand::Many(a), Operand::Many(b), Operand::Many(c)) => {
                    for (((to, a), b), c) in to.iter().zip(a).zip(b).zip(c) {
                        let (a, b, c) = (a.get().0, b.get().0, c.get().0);
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
                (Operand::One(a), Operand::Many(b), Operand::Many(c)) => {
                    let a = a.get().0;
                    for ((to, b), c) in to.iter().zip(b).zip(c) {
                        let (b, c) = (b.get().0, c.get().0);
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
                (Operand::Many(a), Operand::One(b), Operand::Many(c)) => {
                    let b = b.get().0;
                    for ((to, a), c) in to.iter().zip(a).zip(c) {
                        let (a, c) = (a.get().0, c.get().0);
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
                (Operand::Many(a), Operand::Many(b), Operand::One(c)) => {
                    let c = c.get().0;
                    for ((to, a), b) in to.iter().zip(a).zip(b) {
                        let (a, b) = (a.get().0, b.get().0);
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
                (Operand::Many(a), Operand::One(b), Operand::One(c)) => {
                    let (b, c) = (b.get().0, c.get().0);
                    for (to, a) in to.iter().zip(a) {
                        let a = a.get().0;
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
                (a, b, c) => {
                    let at = |operand: Operand<'_>, index: usize| match operand {
                        Operand::One(block) => block.get().0,
                        Operand::Many(blocks) => blocks[index].get().0,
                    };
                    for (index, to) in to.iter().enumerate() {
                        let (a, b, c) = (at(a, index), at(b, index), at(c, index));
                        lanes!(to, lane => f(a[lane], b[lane], c[lane]));
                    }
                }
            }
        }
    }
}
