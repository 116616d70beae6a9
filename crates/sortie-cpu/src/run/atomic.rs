//! Atomics on memory.

use super::{
    memory::{Action, Bounds, Indices, address},
    straight::Lanes,
    view::{Word, Words},
};
use crate::{
    code::{Atomic, AtomicOp, AtomicWords, Reg},
    lanes::{BLOCK, Block},
    wide_opcode::{WideOpcode, join, split},
};

impl Lanes<'_, '_> {
    #[inline(always)]
    pub(super) fn atomic(&self, atomic: &Atomic) {
        self.with_memory(atomic.access.address.root, Action::Update(atomic));
    }

    pub(super) fn atomic_words<W: Word>(&self, atomic: &Atomic, words: Words<'_, W>) {
        let access = &atomic.access;
        let bounds = self.bounds(access);
        for range in &self.summary.grid {
            let row = self.row_offset(access.address.root, range.y);
            for x in range.x..range.x + range.len {
                let active = self.active(access, range.y, x);
                let indices = self.indices(access, range.y, x);
                let values = self.file[self.place(atomic.value).at(range.y, x)].get();
                let compare = atomic.compare.map(|reg| self.file[self.place(reg).at(range.y, x)].get());
                if let Some(high) = &atomic.high {
                    let place = Place { y: range.y, x, active, row };
                    self.wide_atomic_block(atomic, high, words, &bounds, &indices, place);
                    continue;
                }
                let mut old = Block::ZERO;
                for lane in (0..BLOCK).filter(|lane| active >> lane & 1 == 1) {
                    let Some(at) = address(&bounds, &indices, lane, row) else { continue };
                    let value = values.0[lane];
                    let expected = compare.map_or(0, |compare| compare.0[lane]);
                    old.0[lane] = atomic_op(words, atomic.atomic_op, at, value, expected).unwrap_or(0);
                }
                if let Some(reg) = atomic.old {
                    self.file[self.place(reg).at(range.y, x)].set(old);
                }
            }
        }
    }

    /// An atomic of 64 bits, of a block of lanes. No other thread has the memory.
    fn wide_atomic_block<W: Word>(
        &self,
        atomic: &Atomic,
        high: &AtomicWords,
        words: Words<'_, W>,
        bounds: &Bounds,
        indices: &Indices,
        Place { y, x, active, row }: Place,
    ) {
        let block = |reg: Reg| self.file[self.place(reg).at(y, x)].get().0;
        let (low_value, high_value) = (block(atomic.value), block(high.value));
        let compare = atomic.compare.zip(high.compare).map(|(low, high)| (block(low), block(high)));
        let mut old = [Block::ZERO; 2];
        for lane in (0..BLOCK).filter(|lane| active >> lane & 1 == 1) {
            let Some(at) = address(bounds, indices, lane, row) else { continue };
            let (Some(low), Some(high)) = (words.get(at), words.get(at + 1)) else { continue };
            let before = join([low, high]);
            let value = join([low_value[lane], high_value[lane]]);
            let expected = compare.map_or(0, |(low, high)| join([low[lane], high[lane]]));
            let [low_after, high_after] = split(wide_atomic_op(atomic.atomic_op, before, value, expected));
            words.put(at, low_after);
            words.put(at + 1, high_after);
            [old[0].0[lane], old[1].0[lane]] = [low, high];
        }
        for (reg, old) in [atomic.old, high.old].into_iter().zip(old) {
            if let Some(reg) = reg {
                self.file[self.place(reg).at(y, x)].set(old);
            }
        }
    }
}

/// A block of lanes of an atomic: where it is, its active lanes, and where the workgroup memory of its row starts.
#[derive(Clone, Copy)]
struct Place {
    y: u32,
    x: u32,
    active: u32,
    row: u32,
}

#[inline(always)]
fn atomic_op<W: Word>(words: Words<'_, W>, atomic_op: AtomicOp, at: usize, value: u32, expected: u32) -> Option<u32> {
    let signed = |word: u32| word.cast_signed();
    match atomic_op {
        AtomicOp::Add => words.update(at, |old| old.wrapping_add(value)),
        AtomicOp::Sub => words.update(at, |old| old.wrapping_sub(value)),
        AtomicOp::And => words.update(at, |old| old & value),
        AtomicOp::Or => words.update(at, |old| old | value),
        AtomicOp::Xor => words.update(at, |old| old ^ value),
        AtomicOp::MinI => words.update(at, |old| signed(old).min(signed(value)).cast_unsigned()),
        AtomicOp::MaxI => words.update(at, |old| signed(old).max(signed(value)).cast_unsigned()),
        AtomicOp::MinU => words.update(at, |old| old.min(value)),
        AtomicOp::MaxU => words.update(at, |old| old.max(value)),
        AtomicOp::Exchange => words.update(at, |_| value),
        AtomicOp::CompareExchange => words.update(at, |old| if old == expected { value } else { old }),
    }
}

/// The value that a 64-bit atomic writes to memory.
fn wide_atomic_op(atomic_op: AtomicOp, before: u64, value: u64, expected: u64) -> u64 {
    match atomic_op {
        AtomicOp::Add => before.wrapping_add(value),
        AtomicOp::Sub => before.wrapping_sub(value),
        AtomicOp::And => before & value,
        AtomicOp::Or => before | value,
        AtomicOp::Xor => before ^ value,
        AtomicOp::MinI => WideOpcode::MinI.apply(before, value),
        AtomicOp::MaxI => WideOpcode::MaxI.apply(before, value),
        AtomicOp::MinU => before.min(value),
        AtomicOp::MaxU => before.max(value),
        AtomicOp::Exchange => value,
        AtomicOp::CompareExchange => {
            if before == expected {
                value
            } else {
                before
            }
        }
    }
}
