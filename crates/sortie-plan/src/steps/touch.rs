//! How each section of a plan uses each external slot.
//!
//! When a submission fails, the slots it writes are poisoned, and poisoned slots may not be read. Scratch is left out:
//! it is not visible after the batch. So are inputs of a replay: every run writes them.

use crate::{Cut, Mode, Plan, Recording, SlotId, SlotKind};

/// How one section uses one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Touch {
    /// The slot.
    pub slot: SlotId,
    /// The section, counted from 0.
    pub section: u32,
    /// Whether it writes at least a part of the slot.
    pub writes: bool,
    /// Whether it may see the slot's content from before the batch: no earlier op of the batch has overwritten all of
    /// it.
    pub reads_previous: bool,
}

/// All touches, in the order of the sections.
#[must_use]
pub fn touches(recording: &Recording, plan: &Plan) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    let mut left_out: Vec<bool> = recording.slots.iter().map(|slot| slot.kind == SlotKind::Scratch).collect();
    recording.inputs.iter().for_each(|port| left_out[port.slot.0 as usize] = true);
    // The latest touch of each slot, so that several in one section become one.
    let mut latest: Vec<Option<usize>> = vec![None; recording.slots.len()];
    for Cut { steps, section, .. } in plan.sections.iter().copied() {
        let ops = plan.steps[steps.range()].iter().filter_map(|step| plan.op_of(*step));
        for access in ops.flat_map(|op| recording.accesses_of(&recording.ops[op.0 as usize])) {
            let slot = access.slot;
            if left_out[slot.0 as usize] {
                continue;
            }
            let info = recording.slots[slot.0 as usize];
            let writes = access.mode != Mode::Read;
            let overwrites = access.mode == Mode::Write && access.start == 0 && access.end == info.bytes;
            let latest = &mut latest[slot.0 as usize];
            match latest.map(|index| touches[index]) {
                Some(touch) if touch.section == section => {
                    touches[latest.unwrap_or_default()].writes |= writes;
                }
                earlier => {
                    let reads_previous = earlier.is_none_or(|touch| touch.reads_previous) && !overwrites;
                    *latest = Some(touches.len());
                    touches.push(Touch { slot, section, writes, reads_previous });
                }
            }
        }
    }
    touches
}

#[cfg(test)]
mod tests {
    use super::{Touch, touches};
    use crate::draft::Draft;
    use crate::{Access, Caps, SlotId, plan};

    fn touched(draft: &Draft) -> Vec<(u32, u32, bool, bool)> {
        let plan = plan(&draft.recording, &Caps::default());
        let plain = |touch: Touch| (touch.slot.0, touch.section, touch.writes, touch.reads_previous);
        touches(&draft.recording, &plan).into_iter().map(plain).collect()
    }

    #[test]
    fn reads_need_and_whole_writes_do_not() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(8), draft.external(8));
        let scratch = draft.scratch(8);
        draft.transfer(&[Access::read(x, 0..8), Access::write(y, 0..8)]);
        draft.transfer(&[Access::read(y, 0..8), Access::write(scratch, 0..8)]);
        assert_eq!(touched(&draft), [(0, 0, false, true), (1, 0, true, false)]);
    }

    #[test]
    fn a_write_to_a_part_leaves_the_rest_needed() {
        let mut draft = Draft::new();
        let x = draft.external(8);
        draft.transfer(&[Access::write(x, 0..4)]);
        assert_eq!(touched(&draft), [(0, 0, true, true)]);
    }

    #[test]
    fn what_an_earlier_section_overwrote_is_not_needed_later() {
        let mut draft = Draft::new();
        let x = draft.external(8);
        draft.transfer(&[Access::write(x, 0..8)]);
        draft.split();
        draft.dispatch(&[Access::read_write(SlotId(0), 0..8)]);
        assert_eq!(touched(&draft), [(0, 0, true, false), (0, 1, true, false)]);
    }

    #[test]
    fn inputs_of_a_replay_are_left_out() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(8), draft.external(8));
        draft.recording.push_input(x, 8);
        draft.transfer(&[Access::read(x, 0..8), Access::write(y, 0..8)]);
        assert_eq!(touched(&draft), [(1, 0, true, false)]);
    }
}
