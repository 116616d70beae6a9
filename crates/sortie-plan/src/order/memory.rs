//! Assigns memory to scratch slots, and finds those that must be zeroed.
//!
//! A slot is alive from the first wave that accesses it to the last. Slots that are never alive together may share one
//! buffer; every slot is at offset 0 of its buffer.
//!
//! Invariant: no two slots that are accessed in the same wave share a buffer, so sharing adds no hazard within a wave.
//! Scratch reads as zero until it is written: a slot whose first wave does not overwrite all of it is zeroed before
//! that wave.
//!
//! Buffers that the batch uses for the first time are zeroed at its start. Buffers that are reused later are
//! zeroed by a dispatch, which keeps the pass open.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::schedule::Schedule;
use crate::{Access, Mode, Recording, SlotId, SlotKind};

/// A free buffer more than this many times too large is left for a slot that needs it. Otherwise the next large slot
/// would need a second large buffer, while a new small one costs less than half of it.
const ROOMY: u64 = 2;

/// Bytes of a scratch buffer that must be zeroed before a wave begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Zeroing {
    /// The wave, as an index into [`Schedule::waves`].
    pub(crate) wave: u32,
    /// The scratch buffer to zero, from its beginning.
    pub(crate) scratch: u32,
    /// Number of bytes: the length of the slot that gets the buffer.
    pub(crate) bytes: u64,
    /// No earlier step of this plan used the buffer, so a buffer that is allocated zeroed needs no zeroing.
    pub(crate) first: bool,
}

/// Buffers for all scratch slots that are used.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The scratch buffer of each slot; `None` for external and for unused slots.
    pub(crate) placement: Vec<Option<u32>>,
    /// Bytes of each scratch buffer.
    pub(crate) scratch: Vec<u64>,
    /// The zeroings, sorted by wave.
    pub(crate) zeroings: Vec<Zeroing>,
}

/// Places every scratch slot; without `reuse` each gets its own buffer.
pub(crate) fn place(recording: &Recording, schedule: &Schedule, reuse: bool) -> Memory {
    let mut pool = Pool::default();
    let mut placement = vec![None; recording.slots.len()];
    let mut zeroings = Vec::new();
    for life in lives(recording, schedule) {
        let slot = life.slot.0 as usize;
        let bytes = recording.slots[slot].bytes;
        if reuse {
            pool.release_before(life.first);
        }
        let (scratch, first) = pool.take(bytes, life.last);
        placement[slot] = Some(scratch);
        if life.shows_old_bytes() {
            zeroings.push(Zeroing { wave: life.first, scratch, bytes, first });
        }
    }
    Memory { placement, scratch: pool.bytes, zeroings }
}

/// The waves in which a slot is used, and whether its previous content is visible in the first.
struct Life {
    slot: SlotId,
    first: u32,
    last: u32,
    overwritten: bool,
    read: bool,
}

impl Life {
    fn touch(&mut self, wave: u32, access: &Access, bytes: u64) {
        self.last = wave;
        if wave == self.first {
            match access.mode {
                Mode::Write => self.overwritten |= access.start == 0 && access.end >= bytes,
                Mode::Read | Mode::ReadWrite => self.read = true,
            }
        }
    }

    fn shows_old_bytes(&self) -> bool {
        self.read || !self.overwritten
    }
}

/// The lives of all used scratch slots, by first wave.
fn lives(recording: &Recording, schedule: &Schedule) -> Vec<Life> {
    let mut lives = Vec::new();
    let mut life_of: Vec<Option<usize>> = vec![None; recording.slots.len()];
    for (number, wave) in (0..).zip(&schedule.waves) {
        for op in &schedule.order[wave.ops.range()] {
            for access in recording.accesses_of(&recording.ops[*op as usize]) {
                let slot = access.slot.0 as usize;
                let info = &recording.slots[slot];
                if info.kind == SlotKind::External {
                    continue;
                }
                let life = *life_of[slot].get_or_insert_with(|| {
                    lives.push(Life {
                        slot: access.slot,
                        first: number,
                        last: number,
                        overwritten: false,
                        read: false,
                    });
                    lives.len() - 1
                });
                lives[life].touch(number, access, info.bytes);
            }
        }
    }
    lives
}

/// Scratch buffers, each either free or taken until some wave. A buffer is as large as its largest occupant.
#[derive(Default)]
struct Pool {
    bytes: Vec<u64>,
    /// By size, for best fit.
    free: BTreeSet<(u64, u32)>,
    /// By the last wave of the occupant, earliest on top.
    taken: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Pool {
    /// Frees the buffers whose occupant's last wave is before `wave`.
    fn release_before(&mut self, wave: u32) {
        while let Some(Reverse((last, id))) = self.taken.peek().copied()
            && last < wave
        {
            self.taken.pop();
            self.free.insert((self.bytes[id as usize], id));
        }
    }

    /// A buffer of at least `bytes` until wave `last`, and whether it is a new one.
    fn take(&mut self, bytes: u64, last: u32) -> (u32, bool) {
        let found = self.best_fit(bytes);
        let id = if let Some((size, id)) = found {
            self.free.remove(&(size, id));
            self.bytes[id as usize] = size.max(bytes);
            id
        } else {
            let id = u32::try_from(self.bytes.len()).expect("no more buffers than slots");
            self.bytes.push(bytes);
            id
        };
        self.taken.push(Reverse((last, id)));
        (id, found.is_none())
    }

    /// The smallest free buffer that is large enough, unless far too large; else the largest one that is too small,
    /// which is enlarged for less than a new one costs.
    fn best_fit(&self, bytes: u64) -> Option<(u64, u32)> {
        let split = (bytes, 0);
        let roomy = bytes.saturating_mul(ROOMY);
        let larger = self.free.range(split..).next();
        let fitting = larger.filter(|(size, _)| *size <= roomy);
        fitting.or_else(|| self.free.range(..split).next_back()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Zeroing;
    use super::{Memory, place};
    use crate::draft::Draft;
    use crate::order::schedule::order;
    use crate::{Access, SlotId};

    fn memory(draft: &Draft, reuse: bool) -> Memory {
        place(&draft.recording, &order(&draft.recording, true), reuse)
    }

    /// One dispatch after another, each reading the slot before and overwriting its own.
    fn chain(sizes: &[u64]) -> Draft {
        let mut draft = Draft::new();
        let mut previous = None;
        for bytes in sizes {
            let slot = draft.scratch(*bytes);
            let mut accesses = vec![Access::write(slot, 0..*bytes)];
            accesses.extend(previous);
            draft.dispatch(&accesses);
            previous = Some(Access::read(slot, 0..*bytes));
        }
        draft
    }

    fn update(slot: SlotId) -> [Access; 1] {
        [Access::read_write(slot, 0..4)]
    }

    #[test]
    fn a_chain_of_any_length_needs_two_buffers() {
        let draft = chain(&[64; 100]);
        assert_eq!(memory(&draft, true).scratch, [64, 64]);
        assert_eq!(memory(&draft, false).scratch, [64; 100]);
    }

    #[test]
    fn slots_touched_in_the_same_wave_have_buffers_of_their_own() {
        // The second dispatch reads the first slot while it writes the second.
        let memory = memory(&chain(&[64, 64]), true);
        let [first, second] = memory.placement[..] else { unreachable!("two slots were recorded") };
        assert_ne!(first, second);
    }

    #[test]
    fn free_buffers_are_fitted_enlarged_or_left_alone() {
        // Sizes of slots alive one after the other, and of their buffers.
        let table: [(&[u64], &[u64]); 5] = [
            (&[64, 64], &[64]),
            (&[64, 32], &[64]),
            (&[64, 31], &[64, 31]),
            (&[64, 100], &[100]),
            (&[64, 31, 40, 20], &[64, 31]),
        ];
        for (sizes, buffers) in table {
            let mut draft = Draft::new();
            for bytes in sizes {
                let slot = draft.scratch(*bytes);
                draft.dispatch(&[Access::write(slot, 0..*bytes)]);
                draft.barrier();
            }
            assert_eq!(memory(&draft, true).scratch, buffers, "{sizes:?}");
        }
    }

    #[test]
    fn external_and_unused_slots_are_not_placed() {
        let mut draft = Draft::new();
        let external = draft.external(4);
        draft.scratch(4);
        draft.dispatch(&update(external));
        let memory = memory(&draft, true);
        assert_eq!(memory.placement, [None, None]);
        assert!(memory.scratch.is_empty());
    }

    #[test]
    fn scratch_is_zeroed_unless_its_first_wave_overwrites_it_all() {
        let slot = SlotId(0);
        let table: [(&[Access], bool); 7] = [
            (&[Access::write(slot, 0..8)], false),
            (&[Access::write(slot, 0..4)], true),
            (&[Access::write(slot, 4..8)], true),
            (&[Access::read(slot, 0..8)], true),
            (&[Access::read_write(slot, 0..8)], true),
            (&[Access::read(slot, 0..8), Access::write(slot, 0..8)], true),
            (&[Access::write(slot, 0..4), Access::write(slot, 0..8)], false),
        ];
        for (accesses, cleared) in table {
            let mut draft = Draft::new();
            draft.scratch(8);
            draft.dispatch(accesses);
            let zeroings = memory(&draft, true).zeroings;
            assert_eq!(!zeroings.is_empty(), cleared, "{accesses:?}");
        }
    }

    #[test]
    fn a_later_write_of_everything_does_not_save_the_clear() {
        let mut draft = Draft::new();
        let slot = draft.scratch(8);
        draft.dispatch(&[Access::read(slot, 0..4)]);
        draft.dispatch(&[Access::write(slot, 0..8)]);
        assert_eq!(memory(&draft, true).zeroings.len(), 1);
    }

    #[test]
    fn each_occupant_is_cleared_before_its_first_wave() {
        let mut draft = Draft::new();
        for _ in 0..2 {
            let slot = draft.scratch(4);
            draft.dispatch(&update(slot));
            draft.barrier();
        }
        let zeroing = |wave, first| Zeroing { wave, scratch: 0, bytes: 4, first };
        let zeroings = memory(&draft, true).zeroings;
        assert_eq!(zeroings, [zeroing(0, true), zeroing(1, false)]);
    }
}
