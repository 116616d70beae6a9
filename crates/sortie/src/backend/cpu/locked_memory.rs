//! All memory of a batch. Each block is locked when a submission first uses it, and lent to one op after the other.
//!
//! A lock is taken once per submission and block, not once per op: an op only splits memory that is locked already.
//!
//! A kernel is lent parts of a buffer: those that it writes overlap no other part. Recording refuses other bindings. So
//! a writer shares memory with none, and no `unsafe` is needed.

use std::sync::Arc;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use sortie_cpu::BoundMemory;
use sortie_plan::{Access, MemoryId};

use super::{HostMemory, host_memory};
use crate::{
    error::Result,
    memory::{Block, index},
};

pub(super) struct LockedMemory<'a> {
    /// The block of each slot.
    memory: &'a [MemoryId],
    /// By block: slots first, then the scratch memory of the plan.
    locked: SmallVec<[Locked<'a>; 16]>,
}

/// The memory of one block, locked at its first use.
struct Locked<'a> {
    memory: Option<&'a HostMemory>,
    words: Option<MutexGuard<'a, Box<[u32]>>>,
}

impl<'a> Locked<'a> {
    #[inline]
    fn lock(&mut self) -> &mut MutexGuard<'a, Box<[u32]>> {
        let memory = self.memory;
        self.words.get_or_insert_with(|| memory.unwrap_or_else(|| unreachable!("what is used has a block")).lock())
    }
}

/// The range of an access, in words of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordRange {
    block: usize,
    start: usize,
    end: usize,
}

/// The memory that one slot of a program gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct BindingRange {
    pub(super) place: WordRange,
    pub(super) writes: bool,
    /// The slot's number.
    pub(super) slot: usize,
}

impl<'a> LockedMemory<'a> {
    pub(super) fn new(blocks: &'a [Option<Arc<Block>>], memory: &'a [MemoryId]) -> Result<Self> {
        let mut locked = SmallVec::with_capacity(blocks.len());
        for block in blocks {
            locked.push(Locked { memory: block.as_deref().map(host_memory).transpose()?, words: None });
        }
        Ok(Self { memory, locked })
    }

    #[inline]
    pub(super) fn place(&self, access: &Access) -> WordRange {
        let block = self.memory[access.slot.0 as usize].0 as usize;
        WordRange { block, start: index(access.start / 4), end: index(access.end / 4) }
    }

    /// Zeroes scratch memory from its start.
    pub(super) fn zero(&mut self, scratch: MemoryId, bytes: u64) {
        let place = WordRange { block: scratch.0 as usize, start: 0, end: index(bytes.div_ceil(4)) };
        self.words(place).fill(0);
    }

    pub(super) fn words(&mut self, place: WordRange) -> &mut [u32] {
        &mut self.locked[place.block].lock()[place.start..place.end]
    }

    /// Copies between two ranges of equal length, also within one block.
    pub(super) fn copy(&mut self, from: WordRange, to: WordRange) {
        self.lock(from.block);
        self.lock(to.block);
        let (low, high) = (from.block.min(to.block), from.block.max(to.block));
        let (below, above) = self.locked.split_at_mut(high);
        let high = held(&mut above[0]);
        if from.block == to.block {
            high.copy_within(from.start..from.end, to.start);
            return;
        }
        let low = held(&mut below[low]);
        let (source, target) = if from.block < to.block { (low, high) } else { (high, low) };
        target[to.start..to.end].copy_from_slice(&source[from.start..from.end]);
    }

    /// Lends a dispatch its memory. The ranges that it writes overlap no others: this was checked while recording.
    #[inline]
    pub(super) fn lend(&mut self, loans: &mut [BindingRange]) -> SmallVec<[BoundMemory<'_>; 8]> {
        for range in &*loans {
            self.lock(range.place.block);
        }
        // Sorted by block, then start: each range is split off the memory after the previous one.
        loans.sort_unstable_by_key(|range| (range.place.block, range.place.start));
        let mut bound = SmallVec::new();
        bound.resize_with(loans.len(), || BoundMemory::Read(&[]));
        let (mut rest, mut passed) = (&mut self.locked[..], 0);
        for loans in loans.chunk_by(|one, other| one.place.block == other.place.block) {
            let [first, ..] = loans else { continue };
            let behind = std::mem::take(&mut rest).split_at_mut(first.place.block - passed).1;
            let Some((locked, behind)) = behind.split_first_mut() else { unreachable!("every block is locked") };
            (rest, passed) = (behind, first.place.block + 1);
            let words = held(locked);
            if loans.iter().any(|range| range.writes) {
                lend_parts(words, loans, &mut bound);
            } else {
                lend_to_read(words, 0, loans, &mut bound);
            }
        }
        bound
    }

    #[inline]
    fn lock(&mut self, at: usize) {
        self.locked[at].lock();
    }
}

/// Lends ranges of one block, sorted by their start. Those to write overlap nothing.
fn lend_parts<'m>(mut words: &'m mut [u32], mut loans: &[BindingRange], bound: &mut [BoundMemory<'m>]) {
    let mut passed = 0;
    while let [first, ..] = loans {
        // Ranges that overlap are lent together.
        let (mut count, mut end) = (1, first.place.end);
        while let Some(next) = loans.get(count).filter(|next| next.place.start < end) {
            (count, end) = (count + 1, end.max(next.place.end));
        }
        let (together, behind) = loans.split_at(count);
        let (own, rest) =
            std::mem::take(&mut words).split_at_mut(first.place.start - passed).1.split_at_mut(end - first.place.start);
        match together {
            [BindingRange { writes: true, slot, .. }] => bound[*slot] = BoundMemory::Write(own),
            _ => lend_to_read(own, first.place.start, together, bound),
        }
        (words, passed, loans) = (rest, end, behind);
    }
}

/// Lends ranges of words that begin at a place of their block.
fn lend_to_read<'m>(words: &'m [u32], start: usize, loans: &[BindingRange], bound: &mut [BoundMemory<'m>]) {
    for BindingRange { place, slot, .. } in loans {
        bound[*slot] = BoundMemory::Read(&words[place.start - start..place.end - start]);
    }
}

fn held<'m>(locked: &'m mut Locked<'_>) -> &'m mut [u32] {
    locked.words.as_mut().unwrap_or_else(|| unreachable!("just locked"))
}
