//! Instructions on 64-bit integers.

use super::straight::Lanes;
use crate::{
    code::Wide,
    lanes::{BLOCK, Block},
    wide_opcode::{join, split},
};

impl Lanes<'_, '_> {
    pub(super) fn wide(&self, wide: &Wide) {
        let to = self.place(wide.d);
        let blocks = if to.class == 3 { &self.summary.grid[..] } else { self.all_of(to.class) };
        for range in blocks {
            for x in range.columns() {
                // All operands are read before the first result is written: they may share registers.
                let [a, a_high, b, b_high] = wide.from.map(|reg| self.file[self.place(reg).at(range.y, x)].get().0);
                let (mut low, mut high) = (Block::ZERO, Block::ZERO);
                for lane in 0..BLOCK {
                    let (a, b) = (join([a[lane], a_high[lane]]), join([b[lane], b_high[lane]]));
                    [low.0[lane], high.0[lane]] = split(wide.opcode.apply(a, b));
                }
                self.file[to.at(range.y, x)].set(low);
                if let Some(reg) = wide.high {
                    self.file[self.place(reg).at(range.y, x)].set(high);
                }
            }
        }
    }
}
