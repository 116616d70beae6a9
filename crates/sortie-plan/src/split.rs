//! Where a plan is cut into submissions, beyond what the recording asked for.
//!
//! Costs are the caller's: they change from run to run, so neither they nor the cuts are part of a plan. A cut may fall anywhere, since ops
//! of one wave do not conflict: whatever the cuts, running the parts in order is running the plan.

use crate::{Lane, Op, Plan, Recording, Span};

/// When to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Only where the recording says.
    Never,
    /// After so many ops; 0 counts as 1.
    Every(u32),
    /// Leave alone what costs no more than this. What costs more is cut so that no part does: the first part costs a sixteenth at most, so that the
    /// device starts early, and each next one twice as much as the last.
    Within(u64),
}

/// How much smaller than the limit the first part is, as a power of two.
const SMALL: u32 = 4;

/// One submission: a stretch of [`Plan::order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Part {
    /// Its operations, in [`Plan::order`].
    pub ops: Span,
    /// The submission of the plan that it is part of.
    pub submission: u32,
}

impl Plan {
    /// The submissions of the plan as they are.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        (0..).zip(&self.submissions).map(|(submission, waves)| {
            let waves = &self.waves[waves.range()];
            let (first, last) = (waves.first().map(|wave| wave.ops.range()), waves.last().map(|wave| wave.ops.range()));
            let ops = Span::new(first.map_or(0, |ops| ops.start)..last.map_or(0, |ops| ops.end));
            Part { ops, submission }
        })
    }

    /// Number of compute passes: runs of consecutive compute waves within a submission.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.passes_of(self.parts())
    }

    /// Number of compute passes when it is cut into these parts.
    #[must_use]
    pub fn passes_of(&self, parts: impl IntoIterator<Item = Part>) -> usize {
        let in_part = |part: Part| {
            let ops = part.ops.range();
            let first = self.waves.partition_point(|wave| wave.ops.range().end <= ops.start);
            let waves = self.waves[first..].iter().take_while(|wave| wave.ops.range().start < ops.end);
            let mut lane = Lane::Transfer;
            waves
                .filter(|wave| std::mem::replace(&mut lane, wave.lane) != wave.lane && wave.lane == Lane::Compute)
                .count()
        };
        parts.into_iter().map(in_part).sum()
    }

    /// Points at which what follows waits for what came before, when it is cut into these parts: one between any two waves of a part.
    #[must_use]
    pub fn barriers_of(&self, parts: impl IntoIterator<Item = Part>) -> usize {
        let in_part = |part: Part| {
            let ops = part.ops.range();
            let first = self.waves.partition_point(|wave| wave.ops.range().end <= ops.start);
            let end = self.waves.partition_point(|wave| wave.ops.range().start < ops.end);
            end.saturating_sub(first + 1)
        };
        parts.into_iter().map(in_part).sum()
    }
}

/// Cuts a plan; `cost` is that of an op, by its number in the recording.
pub fn split(plan: &Plan, rule: Rule, mut cost: impl FnMut(u32) -> u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut room = match rule {
        Rule::Within(limit) => limit >> SMALL,
        Rule::Never | Rule::Every(_) => 0,
    };
    for whole in plan.parts() {
        let ops = whole.ops.range();
        match rule {
            Rule::Never => parts.push(whole),
            Rule::Every(count) => {
                let starts = ops.clone().step_by(count.max(1) as usize);
                let part =
                    |start: usize| Part { ops: Span::new(start..ops.end.min(start + count.max(1) as usize)), ..whole };
                parts.extend(starts.map(part));
            }
            Rule::Within(limit) => {
                let costs: Vec<u64> = plan.order[ops.clone()].iter().map(|op| cost(*op)).collect();
                if costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost)) <= limit {
                    parts.push(whole);
                    continue;
                }
                let (mut start, mut spent) = (ops.start, 0_u64);
                for (at, cost) in ops.clone().zip(costs) {
                    if at > start && spent.saturating_add(cost) > room {
                        parts.push(Part { ops: Span::new(start..at), ..whole });
                        room = (room.max(1) * 2).min(limit);
                        (start, spent) = (at, 0);
                    }
                    spent = spent.saturating_add(cost);
                }
                parts.push(Part { ops: Span::new(start..ops.end), ..whole });
            }
        }
    }
    parts
}

/// The recording with dispatches divided: `pieces` has their numbers, ascending, and how many pieces each becomes. A piece runs a
/// [share](Op::share) of the workgroups, and asks for a second hidden parameter block of `block` bytes. Also returns, for each op, the one it was.
#[must_use]
pub fn divide(recording: &Recording, pieces: &[(u32, u32)], block: u32) -> (Recording, Vec<u32>) {
    let mut divided = Recording::new();
    for slot in &recording.slots {
        divided.push_slot(*slot);
    }
    for kernel in &recording.kernels {
        divided.push_kernel(*kernel);
    }
    for tensor in &recording.tensors {
        divided.push_tensor(*tensor);
    }
    for access in &recording.accesses {
        divided.push_access(*access);
    }
    let mut origin = Vec::with_capacity(recording.ops.len());
    let mut pieces = pieces.iter().peekable();
    for (number, op) in (0_u32..).zip(&recording.ops) {
        let count = pieces.next_if(|(at, _)| *at == number).map_or(1, |(_, count)| *count);
        let groups: u64 = op.grid.iter().map(|groups| u64::from(*groups)).product();
        for piece in 0..u64::from(count) {
            let mut op = *op;
            if count > 1 {
                let end = |piece: u64| usize::try_from(groups * piece / u64::from(count)).unwrap_or(usize::MAX);
                op = Op { share: Span::new(end(piece)..end(piece + 1)), params: [op.params[0], block], ..op };
            }
            divided.push_op(op);
            origin.push(number);
        }
    }
    (divided, origin)
}

#[cfg(test)]
mod tests {
    use super::{Part, Rule, divide, split};
    use crate::draft::Draft;
    use crate::{Access, Caps, Op, Plan, SlotId, Span, plan};

    /// Dispatches on one buffer, one after the other, with splits after some of them.
    fn chain(ops: u32, splits: &[u32]) -> Plan {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for op in 0..ops {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
            if splits.contains(&op) {
                draft.split();
            }
        }
        plan(&draft.recording, &Caps::default())
    }

    fn lengths(parts: &[Part]) -> Vec<usize> {
        parts.iter().map(|part| part.ops.range().len()).collect()
    }

    #[test]
    fn never_leaves_what_was_recorded() {
        assert_eq!(lengths(&split(&chain(5, &[]), Rule::Never, |_| 9)), [5]);
        let parts = split(&chain(5, &[1]), Rule::Never, |_| 9);
        assert_eq!(parts, [Part { ops: Span::new(0..2), submission: 0 }, Part { ops: Span::new(2..5), submission: 1 }]);
    }

    #[test]
    fn every_counts_from_each_split() {
        assert_eq!(lengths(&split(&chain(5, &[]), Rule::Every(2), |_| 9)), [2, 2, 1]);
        assert_eq!(lengths(&split(&chain(5, &[2]), Rule::Every(2), |_| 9)), [2, 1, 2]);
        assert_eq!(lengths(&split(&chain(3, &[]), Rule::Every(0), |_| 9)), [1, 1, 1]);
    }

    #[test]
    fn within_a_limit_nothing_is_cut_and_beyond_it_parts_start_small_and_double() {
        assert_eq!(lengths(&split(&chain(10, &[]), Rule::Within(160), |_| 16)), [10]);
        assert_eq!(lengths(&split(&chain(41, &[]), Rule::Within(160), |_| 10)), [1, 2, 4, 8, 16, 10]);
        assert_eq!(lengths(&split(&chain(60, &[]), Rule::Within(160), |_| 10)), [1, 2, 4, 8, 16, 16, 13]);
    }

    #[test]
    fn what_costs_more_than_the_limit_goes_alone() {
        assert_eq!(lengths(&split(&chain(3, &[]), Rule::Within(16), |op| if op == 1 { 100 } else { 1 })), [1, 1, 1]);
        assert_eq!(lengths(&split(&chain(2, &[]), Rule::Within(0), |_| u64::MAX)), [1, 1]);
    }

    #[test]
    fn pieces_cover_the_grid_and_leave_other_ops_alone() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..3 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
        }
        draft.recording.ops[1] = Op { grid: [5, 2, 1], params: [4, 0], ..draft.recording.ops[1] };
        let (divided, origin) = divide(&draft.recording, &[(1, 4)], 32);
        assert_eq!(origin, [0, 1, 1, 1, 1, 2]);
        let shares: Vec<_> = divided.ops.iter().map(|op| (op.share.range(), op.params)).collect();
        assert_eq!(shares[1..5], [0..2, 2..5, 5..7, 7..10].map(|share| (share, [4, 32])));
        assert_eq!((divided.ops[0], divided.ops[5]), (draft.recording.ops[0], draft.recording.ops[2]));
        assert_eq!(divided.accesses_of(&divided.ops[3])[0].slot, SlotId(0));
        assert_eq!(plan(&divided, &Caps::default()).waves.len(), 6);
    }

    #[test]
    fn chained_dispatches_are_one_pass_of_as_many_waves() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..1000 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!(plan.waves.len(), 1000);
        assert_eq!(plan.passes(), 1);
        assert_eq!(plan.submissions.len(), 1);
    }

    #[test]
    fn barriers_lie_between_the_waves_of_a_part_and_none_where_it_is_cut() {
        let mut draft = Draft::new();
        let (x, y) = (draft.external(4), draft.external(4));
        for _ in 0..4 {
            draft.dispatch(&[Access::read_write(x, 0..4)]);
            draft.dispatch(&[Access::read_write(y, 0..4)]);
        }
        let plan = plan(&draft.recording, &Caps::default());
        assert_eq!((plan.waves.len(), plan.barriers_of(plan.parts())), (4, 3));
        let every = |ops| plan.barriers_of(split(&plan, Rule::Every(ops), |_| 0));
        // Two ops to a wave: cut between waves, then in the middle of them, then everywhere.
        assert_eq!((every(4), every(3), every(1)), (2, 2, 0));
    }

    #[test]
    fn alternating_copies_and_dispatches_on_independent_buffers_are_one_pass() {
        let mut draft = Draft::new();
        for _ in 0..100 {
            let (x, y, z) = (draft.external(4), draft.external(4), draft.external(4));
            draft.transfer(&[Access::read(x, 0..4), Access::write(y, 0..4)]);
            draft.dispatch(&[Access::read_write(z, 0..4)]);
        }
        let in_order = Caps { reorder: false, ..Caps::default() };
        assert_eq!(plan(&draft.recording, &Caps::default()).passes(), 1);
        assert_eq!(plan(&draft.recording, &in_order).passes(), 100);
    }

    #[test]
    fn a_pass_ends_with_its_submission() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for _ in 0..3 {
            draft.dispatch(&[Access::read(x, 0..4)]);
            draft.split();
        }
        assert_eq!(plan(&draft.recording, &Caps::default()).passes(), 3);
    }
}
