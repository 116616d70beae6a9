//! Orders the operations: waves of concurrent ops, grouped so that there are few compute passes.
//!
//! Every op gets the smallest label that puts it after all ops it conflicts with, so copies gather in as few phases as
//! the data allows and a pass stays open as long as possible. Nothing crosses a split, so each section is labelled on
//! its own, once for each lane as the first, and the better result is kept.
//!
//! Invariant: two ops in conflict keep their recorded order and never share a wave; neither do two ops with a barrier
//! or split between them.

use super::hazard::Tracker;
use super::label::{Label, Phases};
use crate::{Lane, OpKind, Recording, Span};

/// Operations that may run concurrently: none of them conflicts with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wave {
    /// The lane of all its operations.
    pub(crate) lane: Lane,
    /// Its operations, in [`Schedule::order`].
    pub(crate) ops: Span,
}

/// The operations in execution order, divided into waves and sections of waves.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Op numbers. Fences are resolved and do not appear, nor do ops with nothing to do.
    pub(crate) order: Vec<u32>,
    /// Consecutive ranges of `order`, covering it.
    pub(crate) waves: Vec<Wave>,
    /// Consecutive ranges of `waves`, covering them: one for each part between splits that has any work.
    pub(crate) sections: Vec<Span>,
}

/// Orders a recording. Without `reorder` the recorded order is kept, and waves are runs of neighbours.
pub(crate) fn order(recording: &Recording, reorder: bool) -> Schedule {
    // An op with nothing to do has no order, and overwrites nothing.
    let numbers: Vec<u32> =
        (0..).zip(&recording.ops).filter(|(_, op)| op.is_fence() || !op.is_empty()).map(|(number, _)| number).collect();
    let mut schedule = Schedule::default();
    let mut tracker = Tracker::new(recording.slots.len());
    for stretch in numbers.split(|op| kind(recording, *op) == OpKind::Split) {
        let mut attempt = |first| {
            tracker.restart();
            label(recording, stretch, Phases { first }, reorder, &mut tracker)
        };
        // The first of equals is kept: uploads before the dispatches that use them.
        let best = beginnings(recording, stretch).iter().map(|first| attempt(*first)).min_by_key(Labelling::cost);
        if let Some(labelling) = best {
            schedule.append(&labelling);
        }
    }
    schedule
}

/// The lanes worth trying first.
fn beginnings(recording: &Recording, stretch: &[u32]) -> &'static [Lane] {
    let has = |lane| {
        let mut ops = stretch.iter().map(|op| &recording.ops[*op as usize]);
        ops.any(|op| !op.is_fence() && op.lane() == lane)
    };
    match (has(Lane::Transfer), has(Lane::Compute)) {
        (true, true) => &[Lane::Transfer, Lane::Compute],
        (true, false) => &[Lane::Transfer],
        (false, true) => &[Lane::Compute],
        (false, false) => &[],
    }
}

/// The ops of one section with their labels, in execution order.
struct Labelling {
    phases: Phases,
    ops: Vec<(Label, u32)>,
}

fn label(recording: &Recording, stretch: &[u32], phases: Phases, reorder: bool, tracker: &mut Tracker) -> Labelling {
    let mut ops = Vec::with_capacity(stretch.len());
    let mut greatest = None;
    let mut fence = None;
    for number in stretch {
        let op = &recording.ops[*number as usize];
        if op.kind == OpKind::Barrier {
            fence = greatest;
            continue;
        }
        let accesses = recording.accesses_of(op);
        let latest = accesses.iter().map(|access| tracker.latest(access)).fold(fence, Ord::max);
        let mut label = match latest {
            Some(latest) => phases.after(latest, op.lane()),
            None => phases.start(op.lane()),
        };
        if !reorder && let Some(previous) = greatest {
            label = label.max(phases.not_before(previous, op.lane()));
        }
        for access in accesses {
            tracker.record(access, label);
        }
        greatest = greatest.max(Some(label));
        ops.push((label, *number));
    }
    // Numbers break ties, so ops of one wave stay in recorded order.
    ops.sort_unstable();
    Labelling { phases, ops }
}

impl Labelling {
    /// Number of phases, then of compute phases among them.
    fn cost(&self) -> (usize, usize) {
        let phases = self.ops.chunk_by(|(a, _), (b, _)| a.phase == b.phase);
        phases.fold((0, 0), |(all, compute), ops| {
            let lane = self.phases.lane(ops[0].0.phase);
            (all + 1, compute + usize::from(lane == Lane::Compute))
        })
    }
}

impl Schedule {
    fn append(&mut self, labelling: &Labelling) {
        let first_wave = self.waves.len();
        for wave in labelling.ops.chunk_by(|(a, _), (b, _)| a == b) {
            let first_op = self.order.len();
            self.order.extend(wave.iter().map(|(_, number)| number));
            self.waves.push(Wave {
                lane: labelling.phases.lane(wave[0].0.phase),
                ops: Span::new(first_op..self.order.len()),
            });
        }
        self.sections.push(Span::new(first_wave..self.waves.len()));
    }
}

fn kind(recording: &Recording, op: u32) -> OpKind {
    recording.ops[op as usize].kind
}

#[cfg(test)]
mod tests {
    use super::order;
    use crate::draft::Draft;
    use crate::{Access, Lane, Recording, SlotId, Span};

    /// The waves as lists of op numbers.
    fn waves(recording: &Recording, reorder: bool) -> Vec<Vec<u32>> {
        let schedule = order(recording, reorder);
        let wave = |span: Span| schedule.order[span.range()].to_vec();
        schedule.waves.iter().map(|w| wave(w.ops)).collect()
    }

    fn lanes(recording: &Recording) -> Vec<Lane> {
        let schedule = order(recording, true);
        schedule.waves.iter().map(|wave| wave.lane).collect()
    }

    #[test]
    fn ops_in_conflict_take_turns_and_others_share_a_wave() {
        let x = SlotId(0);
        let read = Access::read(x, 0..4);
        let write = Access::write(x, 0..4);
        let update = Access::read_write(x, 0..4);
        let elsewhere = Access::write(x, 4..8);
        let table = [
            (read, read, 1),
            (write, read, 2),
            (read, write, 2),
            (write, write, 2),
            (update, update, 2),
            (write, elsewhere, 1),
        ];
        for (first, second, count) in table {
            let mut draft = Draft::new();
            draft.external(8);
            draft.dispatch(&[first]);
            draft.dispatch(&[second]);
            for reorder in [false, true] {
                let waves = waves(&draft.recording, reorder);
                assert_eq!(waves.len(), count, "{first:?}, {second:?}");
                assert_eq!(waves.concat(), [0, 1]);
            }
        }
    }

    #[test]
    fn an_op_in_conflict_with_itself_is_one_op() {
        let mut draft = Draft::new();
        let x = draft.external(8);
        draft.dispatch(&[Access::read(x, 0..8), Access::write(x, 0..8)]);
        assert_eq!(waves(&draft.recording, true), [[0]]);
    }

    #[test]
    fn independent_ops_are_moved_together_only_when_reordering() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(4), draft.external(4));
        for slot in [x, x, y, y] {
            draft.dispatch(&[Access::read_write(slot, 0..4)]);
        }
        assert_eq!(waves(&draft.recording, true), [[0, 2], [1, 3]]);
        assert_eq!(waves(&draft.recording, false), [vec![0], vec![1, 2], vec![3]]);
    }

    #[test]
    fn nothing_moves_across_a_barrier() {
        let mut draft = Draft::new();
        let slots = [(); 4].map(|()| draft.external(4));
        draft.barrier();
        draft.dispatch(&[Access::write(slots[0], 0..4)]);
        draft.transfer(&[Access::write(slots[1], 0..4)]);
        draft.barrier();
        draft.barrier();
        draft.dispatch(&[Access::write(slots[2], 0..4)]);
        draft.transfer(&[Access::write(slots[3], 0..4)]);
        let waves = waves(&draft.recording, true);
        let place = |op| waves.iter().position(|wave| wave.contains(&op));
        assert!(place(1).max(place(2)) < place(5).min(place(6)));
    }

    #[test]
    fn a_split_ends_a_submission_and_an_empty_stretch_makes_none() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        draft.split();
        draft.dispatch(&[Access::read(x, 0..4)]);
        draft.split();
        draft.split();
        draft.barrier();
        draft.split();
        draft.dispatch(&[Access::read(x, 0..4)]);
        draft.dispatch(&[Access::write(x, 0..4)]);
        draft.split();
        let schedule = order(&draft.recording, true);
        let spans = [Span { start: 0, len: 1 }, Span { start: 1, len: 2 }];
        assert_eq!(schedule.sections, spans);
        assert_eq!(schedule.order, [1, 6, 7]);
    }

    #[test]
    fn a_recording_without_work_has_no_sections() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        draft.dispatch_over([0, 1, 1], &[Access::write(x, 0..4)]);
        draft.transfer(&[]);
        assert!(order(&draft.recording, true).sections.is_empty());
        draft.split();
        draft.barrier();
        assert!(order(&draft.recording, true).sections.is_empty());
    }

    #[test]
    fn copies_gather_in_front_of_the_dispatches_that_use_them() {
        let mut draft = Draft::new();
        for _ in 0..100 {
            let slot = draft.external(4);
            draft.transfer(&[Access::write(slot, 0..4)]);
            draft.dispatch(&[Access::read(slot, 0..4)]);
        }
        assert_eq!(lanes(&draft.recording), [Lane::Transfer, Lane::Compute]);
    }

    #[test]
    fn readbacks_gather_behind_the_dispatches_that_made_them() {
        let mut draft = Draft::new();
        for _ in 0..100 {
            let slot = draft.external(4);
            draft.dispatch(&[Access::write(slot, 0..4)]);
            draft.transfer(&[Access::read(slot, 0..4)]);
        }
        assert_eq!(lanes(&draft.recording), [Lane::Compute, Lane::Transfer]);
    }

    #[test]
    fn with_as_many_phases_either_way_fewer_of_them_compute() {
        // Compute first: C T C. Transfer first: T C T.
        let mut draft = Draft::new();
        let (x, y) = (draft.external(4), draft.external(4));
        draft.transfer(&[Access::write(x, 0..4)]);
        draft.dispatch(&[Access::read(x, 0..4)]);
        draft.dispatch(&[Access::write(y, 0..4)]);
        draft.transfer(&[Access::read(y, 0..4)]);
        let expected = [Lane::Transfer, Lane::Compute, Lane::Transfer];
        assert_eq!(lanes(&draft.recording), expected);
    }

    #[test]
    fn a_chain_through_both_lanes_alternates() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..3 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
            draft.transfer(&[Access::read_write(x, 0..4)]);
        }
        let pair = [Lane::Compute, Lane::Transfer];
        assert_eq!(lanes(&draft.recording), pair.repeat(3));
    }

    #[test]
    fn each_submission_begins_with_the_lane_that_suits_it() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        draft.dispatch(&[Access::write(x, 0..4)]);
        draft.transfer(&[Access::read(x, 0..4)]);
        draft.split();
        draft.transfer(&[Access::write(x, 0..4)]);
        draft.dispatch(&[Access::read(x, 0..4)]);
        let (compute, transfer) = (Lane::Compute, Lane::Transfer);
        let expected = [compute, transfer, transfer, compute];
        assert_eq!(lanes(&draft.recording), expected);
    }

    #[test]
    fn slices_of_one_buffer_share_a_wave() {
        let mut draft = Draft::new();
        let x = draft.external(40_000);
        for slice in 0..10_000 {
            draft.dispatch(&[Access::write(x, slice * 4..slice * 4 + 4)]);
        }
        assert_eq!(waves(&draft.recording, true).len(), 1);
    }
}
