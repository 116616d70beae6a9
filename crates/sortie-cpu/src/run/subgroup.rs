//! Operations of the lanes of a subgroup on each other. A subgroup is a part of a block, so none spans two.

use super::straight::Lanes;
use crate::{
    code::{Subgroup, SubgroupOp},
    geometry::SUBGROUP_SIZE,
    lanes::{BLOCK, Block},
    opcode::{One, Opcode},
};

/// Lanes of a subgroup.
const SIZE: usize = SUBGROUP_SIZE as usize;

impl Lanes<'_, '_> {
    pub(super) fn subgroup(&self, subgroup: &Subgroup) {
        let place = self.place(subgroup.d);
        for range in &self.summary.grid {
            for x in range.columns() {
                let active = self.active_lanes(subgroup.mask, x, range.y);
                let block = |reg| self.file[self.place(reg).at(range.y, x)].get();
                let values = block(subgroup.a);
                let index = subgroup.index.map_or(Block::ZERO, block);
                let mut result = Block::ZERO;
                for first in (0..BLOCK).step_by(SIZE) {
                    let part = Part {
                        active: active >> first & ((1 << SIZE) - 1),
                        values: &values.0[first..][..SIZE],
                        index: &index.0[first..][..SIZE],
                    };
                    part.run(subgroup.op, &mut result.0[first..][..SIZE]);
                }
                self.file[place.at(range.y, x)].set(result);
            }
        }
    }
}

/// One subgroup: its active lanes, one bit each, and the operands of its lanes.
struct Part<'b> {
    active: u32,
    values: &'b [u32],
    index: &'b [u32],
}

impl Part<'_> {
    fn is_active(&self, lane: usize) -> bool {
        self.active >> lane & 1 == 1
    }

    fn lanes(&self) -> impl Iterator<Item = usize> {
        (0..SIZE).filter(|lane| self.is_active(*lane))
    }

    /// The value of another lane; zero if it takes no part, where WGSL allows any.
    fn of(&self, lane: usize) -> u32 {
        if lane < SIZE && self.is_active(lane) { self.values[lane] } else { 0 }
    }

    fn run(&self, op: SubgroupOp, result: &mut [u32]) {
        match op {
            SubgroupOp::Ballot => {
                let bits = self.lanes().filter(|lane| self.values[*lane] != 0).fold(0, |bits, lane| bits | 1 << lane);
                result.fill(bits);
            }
            SubgroupOp::Reduce(combine) => {
                let all = self.lanes().map(|lane| self.values[lane]);
                result.fill(all.reduce(|a, b| combine.apply(One([a, b, b]))).unwrap_or(0));
            }
            SubgroupOp::InclusiveScan(combine) | SubgroupOp::ExclusiveScan(combine) => {
                let inclusive = matches!(op, SubgroupOp::InclusiveScan(_));
                let mut sum = neutral(combine);
                for lane in self.lanes() {
                    let with = combine.apply(One([sum, self.values[lane], self.values[lane]]));
                    result[lane] = if inclusive { with } else { sum };
                    sum = with;
                }
            }
            SubgroupOp::BroadcastFirst => result.fill(self.lanes().next().map_or(0, |lane| self.values[lane])),
            _ => {
                for (lane, result) in result.iter_mut().enumerate() {
                    let index = self.index[lane] as usize;
                    *result = match op {
                        SubgroupOp::Shuffle => self.of(index),
                        SubgroupOp::ShuffleUp => lane.checked_sub(index).map_or(0, |lane| self.of(lane)),
                        SubgroupOp::ShuffleDown => self.of(lane + index),
                        SubgroupOp::ShuffleXor => self.of(lane ^ index),
                        SubgroupOp::QuadBroadcast => self.of(lane / 4 * 4 + index % 4),
                        SubgroupOp::QuadSwap(flip) => self.of(lane ^ flip as usize),
                        _ => unreachable!("matched above"),
                    };
                }
            }
        }
    }
}

/// The initial value of a scan.
fn neutral(combine: Opcode) -> u32 {
    match combine {
        Opcode::MulI => 1,
        Opcode::MulF => 1.0_f32.to_bits(),
        // −0.0 + x is x for every x.
        Opcode::AddF => (-0.0_f32).to_bits(),
        Opcode::AddI => 0,
        _ => unreachable!("there are scans of sums and products only"),
    }
}
