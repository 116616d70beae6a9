//! The last accesses of each byte range, to find read-after-write, write-after-read and write-after-write hazards.
//!
//! For each slot a map from byte offsets holds the greatest label that wrote a range of bytes and the greatest that
//! read it since. Labels represent the ops themselves (see [`super::label`]), so a range has constant size however many
//! ops accessed it. Equal neighbours are merged, and an access that covers many ranges leaves one, so the work per
//! access stays small whether a buffer is cut into thousands of slices or read whole a thousand times. Most slots are
//! only ever accessed as a whole: until another range occurs, one range is kept without a map.
//!
//! Invariant: [`Tracker::latest`] returns a label at least as great as that of every recorded access in conflict.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

use super::label::Label;
use crate::{Access, Mode, SlotId};

/// A read over more ranges than this merges them. Later reads of a part then wait for the latest writer of the whole,
/// so they may run later than necessary, but never later than in recorded order. Without a limit, a buffer whose slices
/// are written in different waves and that is then repeatedly read whole would cost quadratic time.
const WIDE: usize = 16;

/// The history of all slots since the last restart.
#[derive(Debug)]
pub(crate) struct Tracker {
    slots: Vec<History>,
    epoch: u32,
}

impl Tracker {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: vec![History::default(); slots], epoch: 0 }
    }

    /// Forgets everything, in constant time: histories of an earlier epoch count as empty.
    pub(crate) fn restart(&mut self) {
        self.epoch += 1;
    }

    /// The greatest label that `access` must come after.
    #[inline]
    pub(crate) fn latest(&self, access: &Access) -> Option<Label> {
        let history = &self.slots[index(access.slot)];
        if history.epoch != self.epoch {
            return None;
        }
        if let Some(only) = &history.only {
            return match access.mode {
                _ if access.end <= only.start || only.end <= access.start => None,
                Mode::Read => only.touch.writer,
                Mode::Write | Mode::ReadWrite => only.touch.greatest(),
            };
        }
        let touches = history.touches(access.start, access.end);
        match access.mode {
            Mode::Read => touches.map(|touch| touch.writer).max().flatten(),
            Mode::Write | Mode::ReadWrite => touches.map(SlotUse::greatest).max().flatten(),
        }
    }

    /// Records that `access` happens at `label`, which is past [`Self::latest`].
    #[inline]
    pub(crate) fn record(&mut self, access: &Access, label: Label) {
        let history = &mut self.slots[index(access.slot)];
        if history.epoch != self.epoch {
            history.stretches.clear();
            history.epoch = self.epoch;
            history.only = Some(Only { start: access.start, end: access.end, touch: SlotUse::default() });
        }
        if let Some(only) = &mut history.only {
            if (only.start, only.end) == (access.start, access.end) {
                only.touch = match access.mode {
                    Mode::Read => only.touch.join(SlotUse { writer: None, reader: Some(label) }),
                    Mode::Write | Mode::ReadWrite => SlotUse { writer: Some(label), reader: None },
                };
                return;
            }
            history.spread();
        }
        match access.mode {
            Mode::Read => history.read(access.start, access.end, label),
            Mode::Write | Mode::ReadWrite => history.write(access.start, access.end, label),
        }
    }
}

const fn index(slot: SlotId) -> usize {
    slot.0 as usize
}

/// The accesses of one slot. A range begins at its key and ends at the next key; before the first key there was no
/// access.
#[derive(Debug, Clone, Default)]
struct History {
    /// Set as long as every access had the same range; `stretches` is empty then.
    only: Option<Only>,
    stretches: BTreeMap<u64, SlotUse>,
    epoch: u32,
}

/// The accesses of one range.
#[derive(Debug, Clone, Copy)]
struct Only {
    start: u64,
    end: u64,
    touch: SlotUse,
}

/// The last accesses of a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SlotUse {
    writer: Option<Label>,
    /// Since the writer: earlier readers precede it and need not be stored.
    reader: Option<Label>,
}

impl SlotUse {
    #[inline]
    fn greatest(self) -> Option<Label> {
        self.writer.max(self.reader)
    }

    #[inline]
    fn join(self, other: Self) -> Self {
        Self { writer: self.writer.max(other.writer), reader: self.reader.max(other.reader) }
    }
}

impl History {
    /// Moves the single range into the map, because another one occurs.
    #[cold]
    fn spread(&mut self) {
        if let Some(Only { start, end, touch }) = self.only.take() {
            self.stretches.insert(start, touch);
            self.stretches.insert(end, SlotUse::default());
        }
    }

    /// The ranges that overlap `start..end`.
    #[inline]
    fn touches(&self, start: u64, end: u64) -> impl Iterator<Item = SlotUse> {
        let within = self.stretches.range((Excluded(start), Excluded(end)));
        let first = self.stretches.range(..=start).next_back();
        first.into_iter().chain(within).map(|(_, touch)| *touch)
    }

    fn write(&mut self, start: u64, end: u64, label: Label) {
        let touch = SlotUse { writer: Some(label), reader: None };
        self.cut(end);
        self.replace(start, end, touch);
    }

    fn read(&mut self, start: u64, end: u64, label: Label) {
        let read = SlotUse { writer: None, reader: Some(label) };
        self.cut(start);
        self.cut(end);
        if self.stretches.range(start..end).nth(WIDE).is_some() {
            let all = self.touches(start, end).fold(read, SlotUse::join);
            self.replace(start, end, all);
        } else {
            for touch in self.stretches.range_mut(start..end).map(|(_, touch)| touch) {
                *touch = touch.join(read);
            }
            self.join_at(end);
            self.join_at(start);
        }
    }

    /// Splits the range at `at`.
    fn cut(&mut self, at: u64) {
        let before = self.before(at);
        self.stretches.entry(at).or_insert(before);
    }

    /// Replaces `start..end` by one range; a range already begins at `end`.
    fn replace(&mut self, start: u64, end: u64, touch: SlotUse) {
        let within = (Included(start), Excluded(end));
        while let Some((&key, _)) = self.stretches.range(within).next() {
            self.stretches.remove(&key);
        }
        self.stretches.insert(start, touch);
        self.join_at(end);
        self.join_at(start);
    }

    /// Merges the range that begins at `at` into the one before it if they are equal.
    #[inline]
    fn join_at(&mut self, at: u64) {
        if self.stretches.get(&at) == Some(&self.before(at)) {
            self.stretches.remove(&at);
        }
    }

    fn before(&self, at: u64) -> SlotUse {
        let last = self.stretches.range(..at).next_back();
        last.map(|(_, touch)| *touch).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::{Tracker, WIDE};
    use crate::order::label::Label;
    use crate::{Access, Mode, SlotId};

    const SLOT: SlotId = SlotId(0);

    const fn at(wave: u32) -> Label {
        Label { phase: 0, wave }
    }

    fn tracker(recorded: &[(Access, u32)]) -> Tracker {
        let mut tracker = Tracker::new(1);
        for (access, wave) in recorded {
            tracker.record(access, at(*wave));
        }
        tracker
    }

    fn stretches(tracker: &Tracker) -> usize {
        tracker.slots[0].stretches.len()
    }

    #[test]
    fn a_read_waits_for_the_writer_and_a_write_for_everyone() {
        let read = Access::read(SLOT, 0..4);
        let write = Access::write(SLOT, 0..4);
        let update = Access::read_write(SLOT, 0..4);
        let table: [(&[_], _, _); 10] = [
            (&[], read, None),
            (&[], write, None),
            (&[(read, 1)], read, None),
            (&[(read, 1)], write, Some(1)),
            (&[(read, 1)], update, Some(1)),
            (&[(write, 1)], read, Some(1)),
            (&[(write, 1)], write, Some(1)),
            (&[(update, 1)], read, Some(1)),
            (&[(write, 1), (read, 2)], read, Some(1)),
            (&[(write, 1), (read, 3), (read, 2)], write, Some(3)),
        ];
        for (recorded, access, expected) in table {
            let latest = tracker(recorded).latest(&access);
            assert_eq!(latest, expected.map(at), "{access:?} after {recorded:?}");
        }
    }

    #[test]
    fn only_overlapping_bytes_matter() {
        let tracker =
            tracker(&[(Access::write(SLOT, 4..8), 1), (Access::write(SLOT, 8..12), 5), (Access::read(SLOT, 6..10), 7)]);
        let table = [
            (Access::write(SLOT, 0..4), None),
            (Access::write(SLOT, 0..5), Some(1)),
            (Access::write(SLOT, 4..6), Some(1)),
            (Access::write(SLOT, 4..7), Some(7)),
            (Access::read(SLOT, 6..8), Some(1)),
            (Access::read(SLOT, 7..9), Some(5)),
            (Access::write(SLOT, 9..10), Some(7)),
            (Access::write(SLOT, 10..12), Some(5)),
            (Access::write(SLOT, 12..20), None),
        ];
        for (access, expected) in table {
            assert_eq!(tracker.latest(&access), expected.map(at), "{access:?}");
        }
    }

    #[test]
    fn slots_have_histories_of_their_own() {
        let mut tracker = Tracker::new(2);
        tracker.record(&Access::write(SlotId(0), 0..4), at(1));
        assert_eq!(tracker.latest(&Access::read(SlotId(1), 0..4)), None);
    }

    #[test]
    fn a_restart_forgets() {
        let mut tracker = tracker(&[(Access::write(SLOT, 0..8), 4)]);
        tracker.restart();
        assert_eq!(tracker.latest(&Access::write(SLOT, 0..8)), None);
        tracker.record(&Access::write(SLOT, 0..2), at(1));
        assert_eq!(tracker.latest(&Access::write(SLOT, 0..2)), Some(at(1)));
        assert_eq!(tracker.latest(&Access::write(SLOT, 2..8)), None);
    }

    #[test]
    fn slices_written_in_one_wave_become_one_stretch() {
        let mut tracker = Tracker::new(1);
        for slice in 0..10_000 {
            tracker.record(&Access::write(SLOT, slice * 4..slice * 4 + 4), at(0));
        }
        // The second one is the unaccessed rest.
        assert_eq!(stretches(&tracker), 2);
    }

    #[test]
    fn a_write_replaces_every_stretch_it_covers() {
        let mut tracker = Tracker::new(1);
        for (start, wave) in (0..100).zip(0..) {
            tracker.record(&Access::write(SLOT, start..start + 1), at(wave));
        }
        assert_eq!(stretches(&tracker), 101);
        tracker.record(&Access::write(SLOT, 0..100), at(100));
        assert_eq!(stretches(&tracker), 2);
    }

    #[test]
    fn a_wide_read_leaves_one_interval_that_depends_on_the_latest_writer() {
        let mut tracker = Tracker::new(1);
        for (wave, start) in (0..).zip(0..=WIDE as u64) {
            tracker.record(&Access::write(SLOT, start..start + 1), at(wave));
        }
        let end = WIDE as u64 + 1;
        let latest = tracker.latest(&Access::read(SLOT, 0..end));
        tracker.record(&Access::read(SLOT, 0..end), at(40));
        assert_eq!(stretches(&tracker), 2);
        assert_eq!(tracker.latest(&Access::read(SLOT, 0..1)), latest);
        assert_eq!(tracker.latest(&Access::write(SLOT, 0..1)), Some(at(40)));
    }

    fn accesses() -> impl Strategy<Value = Access> {
        let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write), Just(Mode::ReadWrite)];
        // No more bytes than WIDE: then no read is wide and the answers are exact.
        let byte = || 0..WIDE as u64;
        (mode, byte(), byte()).prop_map(|(mode, a, b)| Access::new(SLOT, mode, a.min(b)..a.max(b) + 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(0x5027_1e00),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn the_latest_is_the_greatest_label_in_conflict(accesses in vec(accesses(), 0..60)) {
            let mut tracker = Tracker::new(1);
            let mut recorded: Vec<(Access, Label)> = Vec::new();
            for access in accesses {
                let conflicts = recorded.iter().filter(|(other, _)| other.conflicts(&access));
                let expected = conflicts.map(|(_, label)| *label).max();
                prop_assert_eq!(tracker.latest(&access), expected, "{:?}", access);
                let label = expected.map_or(at(0), |latest| at(latest.wave + 1));
                tracker.record(&access, label);
                recorded.push((access, label));
            }
        }
    }
}
