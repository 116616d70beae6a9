//! Blocks of lanes, and the registers made of them.

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

/// Where a register's blocks are, and how they follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) base: u32,
    /// From one block of its own to the next: 0 when there is only one.
    pub(crate) step: u32,
    /// From one column of blocks, or row of lanes, to the next.
    pub(crate) across: u32,
    pub(crate) down: u32,
    pub(crate) class: u8,
}

/// Neighbouring blocks of a row. In lists that ignore rows, `x` counts all blocks and `y` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) y: u32,
    pub(crate) x: u32,
    pub(crate) len: u32,
}

impl Place {
    #[inline(always)]
    pub(crate) fn at(&self, y: u32, x: u32) -> usize {
        (self.base + y * self.down + x * self.across) as usize
    }

    #[inline(always)]
    fn start(&self, stretch: Stretch, grid: bool) -> usize {
        if grid { self.at(stretch.y, stretch.x) } else { (self.base + stretch.x * self.step) as usize }
    }
}

/// Applies a function to every block of the stretches.
#[inline(always)]
pub(crate) fn map<const N: usize>(
    file: &[Cell<Block>],
    stretches: &[Stretch],
    grid: bool,
    to: Place,
    from: [Place; N],
    f: impl Fn([u32; N]) -> u32 + Copy,
) {
    for stretch in stretches {
        let len = stretch.len as usize;
        let to = &file[to.start(*stretch, grid)..][..len];
        let from = from.map(|place| {
            let step = if grid { place.across } else { place.step } as usize;
            let start = place.start(*stretch, grid);
            (&file[start..][..if step == 0 { 1 } else { len }], step)
        });
        for (index, to) in to.iter().enumerate() {
            // Keeps the compiler from unrolling the lanes and vectorising over blocks instead: five times slower.
            std::hint::black_box(());
            let blocks = from.map(|(blocks, step)| blocks[index * step].get());
            let mut result = Block::ZERO;
            for lane in 0..BLOCK {
                result.0[lane] = f(std::array::from_fn(|operand| blocks[operand].0[lane]));
            }
            to.set(result);
        }
    }
}
