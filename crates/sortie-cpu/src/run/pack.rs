//! Packs the lanes that remain in a loop into fewer blocks.
//!
//! Lanes are packed again each time a quarter of them has left. Until the loop ends, neighbouring lanes need not be
//! neighbouring invocations, and no access relies on it.

use super::walk::Walker;
use crate::{
    code::{PackPlan, Reg, Region},
    lanes::{BLOCK, Block},
};

/// Where the lanes of a packed loop came from.
pub(super) struct Packing<'c> {
    plan: &'c PackPlan,
    /// The blocks that had a lane in the loop when it was first packed: their numbers in a register.
    blocks: Vec<u32>,
    /// The original positions of the lanes, counted in lanes of those blocks.
    homes: Vec<u32>,
    /// The value of each carried register for all of them. Valid for lanes that have left, and for registers that are
    /// not written.
    saved: Vec<Vec<u32>>,
    /// Whether an outer loop was packed already.
    before: bool,
}

/// Packs lanes with the widest instruction set.
struct PackLanes<'w, 'b, 'c> {
    walk: &'w mut Walker<'b>,
    plan: &'c PackPlan,
    region: Region,
    packing: &'w mut Option<Packing<'c>>,
}

impl crate::simd::Vectorize for PackLanes<'_, '_, '_> {
    #[inline(always)]
    fn work(self) {
        self.walk.pack_lanes(self.plan, self.region, self.packing);
    }
}

/// The words of some blocks of a register.
#[inline(always)]
fn words(walk: &Walker<'_>, reg: Reg, blocks: &[u32], into: &mut Vec<u32>) {
    let base = walk.rectangle.place(reg).base;
    into.clear();
    for block in blocks {
        into.extend_from_slice(&walk.rectangle.file[(base + block) as usize].get().0);
    }
}

#[inline(always)]
fn set_bits(bits: u32) -> impl Iterator<Item = u32> {
    let mut rest = bits;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

impl Walker<'_> {
    /// Packs the lanes of a region, if a quarter of those in its blocks have left.
    pub(super) fn pack<'c>(&mut self, plan: &'c PackPlan, region: Region, packing: &mut Option<Packing<'c>>) {
        self.simd.run(PackLanes { walk: self, plan, region, packing });
    }

    #[inline(always)]
    fn pack_lanes<'c>(&mut self, plan: &'c PackPlan, region: Region, packing: &mut Option<Packing<'c>>) {
        let mask = self.own_mask(region);
        let rectangle = self.rectangle;
        let base = rectangle.place(mask).base;
        let mut lanes = 0;
        let mut count = 0;
        for range in &self.summary(region).flat {
            count += range.len;
            for block in range.columns() {
                lanes += rectangle.file[(base + block) as usize].get().bits().count_ones();
            }
        }
        let worth = match self.rectangle.code.pack_always {
            true => lanes < count * BLOCK as u32,
            false => count > 1 && lanes * 4 <= count * 3 * BLOCK as u32,
        };
        // Where all are active, the mask may hold anything.
        if !worth || self.summary(region).all {
            return;
        }

        let first = packing.is_none();
        let at = packing.get_or_insert_with(|| {
            let flat = &self.summary(region).flat;
            let blocks: Vec<u32> = flat.iter().flat_map(|range| range.columns()).collect();
            let homes = (0..count * BLOCK as u32).collect();
            Packing { plan, blocks, homes, saved: Vec::new(), before: self.packed }
        });
        // Blocks without active lanes are not in the list, and their masks are undefined.
        let used = at.homes.len();
        let mut stay = Vec::with_capacity(count as usize * BLOCK);
        let mut left = Vec::with_capacity(used);
        let mut present = self.summary(region).flat.iter().flat_map(|range| range.columns()).peekable();
        for (number, block) in at.blocks[..used.div_ceil(BLOCK)].iter().enumerate() {
            let first = number * BLOCK;
            let exist = u32::MAX >> (32 - (used - first).min(BLOCK));
            let bits = match present.next_if_eq(block) {
                Some(_) => rectangle.file[(base + block) as usize].get().bits() & exist,
                None => 0,
            };
            stay.extend(set_bits(bits).map(|lane| first as u32 + lane));
            left.extend(set_bits(exist & !bits).map(|lane| first as u32 + lane));
        }
        let now = stay.len().div_ceil(BLOCK);
        let mut from = Vec::new();
        for (number, carried) in plan.carried.iter().enumerate() {
            words(self, carried.reg, &at.blocks[..used.div_ceil(BLOCK)], &mut from);
            if first {
                at.saved.push(from.clone());
            } else if carried.written {
                let saved = &mut at.saved[number];
                left.iter().for_each(|lane| saved[at.homes[*lane as usize] as usize] = from[*lane as usize]);
            }
            let to = rectangle.place(carried.reg).base;
            for (block, lanes) in at.blocks.iter().zip(stay.chunks(BLOCK)) {
                let mut values = Block::ZERO;
                values.0.iter_mut().zip(lanes).for_each(|(value, lane)| *value = from[*lane as usize]);
                rectangle.file[(to + block) as usize].set(values);
            }
        }
        at.homes = stay.iter().map(|lane| at.homes[*lane as usize]).collect();

        let mut summary = std::mem::take(&mut self.summaries[region.0 as usize]);
        summary.clear();
        summary.all = false;
        for (number, block) in at.blocks[..now].iter().enumerate() {
            let mut ones = Block::ZERO;
            ones.0.iter_mut().take(stay.len() - number * BLOCK).for_each(|lane| *lane = u32::MAX);
            rectangle.file[(base + block) as usize].set(ones);
            summary.push(block / rectangle.columns, block % rectangle.columns, rectangle.columns);
        }
        self.summaries[region.0 as usize] = summary;
        self.packed = true;
    }

    /// Moves lanes back when all have left the loop.
    pub(super) fn unpack(&mut self, packing: Packing<'_>) {
        let rectangle = self.rectangle;
        let mut from = Vec::new();
        for (carried, mut saved) in packing.plan.carried.iter().zip(packing.saved) {
            if carried.written {
                words(self, carried.reg, &packing.blocks[..packing.homes.len().div_ceil(BLOCK)], &mut from);
                packing.homes.iter().zip(&from).for_each(|(home, value)| saved[*home as usize] = *value);
            }
            let to = rectangle.place(carried.reg).base;
            let (blocks, _) = saved.as_chunks::<BLOCK>();
            for (block, values) in packing.blocks.iter().zip(blocks) {
                rectangle.file[(to + block) as usize].set(Block(*values));
            }
        }
        self.packed = packing.before;
    }
}
