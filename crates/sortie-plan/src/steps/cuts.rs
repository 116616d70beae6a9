//! Cuts a plan into submissions, in addition to the splits of the recording.
//!
//! The caller provides the costs: they change from run to run, so neither they nor the cuts are part of a plan. A cut
//! may fall between any two steps of ops, since ops of one wave do not conflict: with any cuts, running the submissions
//! in order equals running the plan. Steps that the planner put in front of an op (zeroing, barriers) stay with it.

use super::{Plan, StepId};
use crate::Span;

/// Where to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CutRule {
    /// Only at the splits of the recording.
    Never,
    /// After this many ops; 0 counts as 1. Ops with nothing to do do not count.
    Every(u32),
    /// Sections that cost at most this are not cut. Others are cut so that no submission costs more: the first one
    /// costs at most a sixteenth, so that the device starts early, and each next one up to twice as much as the last.
    Budget(u64),
}

/// How much smaller than the budget the first submission is, as a power of two.
const FIRST_SHARE_LOG2: u32 = 4;

/// One submission: a range of [`Plan::steps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Its steps.
    pub steps: Span,
    /// Number of its steps that are ops.
    pub ops: u32,
    /// Number of its steps that end a wave.
    pub barriers: u32,
    /// The section of the plan that it is part of.
    pub section: u32,
}

impl Plan {
    /// The sections of the plan, each as one submission.
    #[must_use]
    pub fn whole(&self) -> Vec<Cut> {
        self.sections.clone()
    }
}

/// Cuts a plan; `cost` returns the cost of an op's step.
pub fn cut(plan: &Plan, rule: CutRule, mut cost: impl FnMut(StepId) -> u64) -> Vec<Cut> {
    let mut cuts = Vec::with_capacity(plan.sections.len());
    let mut room = match rule {
        CutRule::Budget(limit) => limit >> FIRST_SHARE_LOG2,
        CutRule::Never | CutRule::Every(_) => 0,
    };
    for whole in &plan.sections {
        let (section, steps) = (whole.section, &whole.steps);
        let mut cutter = Cutter { plan, cuts: &mut cuts, start: steps.start, ops: 0, section };
        match rule {
            CutRule::Never => {
                cuts.push(*whole);
                continue;
            }
            CutRule::Every(count) => {
                for (at, _) in ops(plan, *steps) {
                    if cutter.ops >= count.max(1) {
                        cutter.cut_before(at);
                    }
                    cutter.ops += 1;
                }
            }
            CutRule::Budget(limit) => {
                let costs: Vec<u64> = ops(plan, *steps).map(|(_, step)| cost(step)).collect();
                let cheap = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost)) <= limit;
                let mut spent = 0_u64;
                for ((at, _), cost) in ops(plan, *steps).zip(costs) {
                    if !cheap && cutter.ops > 0 && spent.saturating_add(cost) > room {
                        cutter.cut_before(at);
                        room = (room.max(1) * 2).min(limit);
                        spent = 0;
                    }
                    spent = spent.saturating_add(cost);
                    cutter.ops += 1;
                }
            }
        }
        cutter.push(steps.start + steps.len);
    }
    cuts
}

/// The steps of ops, each with the position of a cut before it: before the steps that the planner put in front of it.
fn ops(plan: &Plan, steps: Span) -> impl Iterator<Item = (u32, StepId)> + '_ {
    let mut behind_last = steps.start;
    (steps.start..steps.start + steps.len).filter_map(move |at| {
        plan.lane_of(plan.steps[at as usize])?;
        Some((std::mem::replace(&mut behind_last, at + 1), StepId(at)))
    })
}

struct Cutter<'a> {
    plan: &'a Plan,
    cuts: &'a mut Vec<Cut>,
    start: u32,
    ops: u32,
    section: u32,
}

impl Cutter<'_> {
    /// Ends a submission before this step.
    fn cut_before(&mut self, at: u32) {
        self.push(at);
        // A submission waits for earlier ones anyway.
        self.start = at + u32::from(self.plan.steps[at as usize].is_wave_end());
        self.ops = 0;
    }

    fn push(&mut self, end: u32) {
        let steps = Span { start: self.start, len: end - self.start };
        let barriers = self.plan.steps[steps.range()].iter().filter(|step| step.is_wave_end()).count();
        let barriers = u32::try_from(barriers).expect("steps are indexed by u32");
        self.cuts.push(Cut { steps, ops: self.ops, barriers, section: self.section });
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, CutRule, cut};
    use crate::draft::Draft;
    use crate::{Access, Caps, Plan, Span, Step, plan};

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

    fn lengths(cuts: &[Cut]) -> Vec<u32> {
        cuts.iter().map(|cut| cut.ops).collect()
    }

    /// The op of a step.
    fn op(plan: &Plan, step: super::StepId) -> u32 {
        plan.op_of(plan.steps[step.0 as usize]).map_or(u32::MAX, |op| op.0)
    }

    #[test]
    fn never_leaves_what_was_recorded() {
        assert_eq!(lengths(&cut(&chain(5, &[]), CutRule::Never, |_| 9)), [5]);
        let cuts = cut(&chain(5, &[1]), CutRule::Never, |_| 9);
        let expected = [
            Cut { steps: Span::new(0..3), ops: 2, barriers: 1, section: 0 },
            Cut { steps: Span::new(3..8), ops: 3, barriers: 2, section: 1 },
        ];
        assert_eq!(cuts, expected);
    }

    #[test]
    fn every_counts_from_each_split() {
        assert_eq!(lengths(&cut(&chain(5, &[]), CutRule::Every(2), |_| 9)), [2, 2, 1]);
        assert_eq!(lengths(&cut(&chain(5, &[2]), CutRule::Every(2), |_| 9)), [2, 1, 2]);
        assert_eq!(lengths(&cut(&chain(3, &[]), CutRule::Every(0), |_| 9)), [1, 1, 1]);
    }

    #[test]
    fn within_a_budget_nothing_is_cut_and_beyond_it_submissions_start_small_and_double() {
        assert_eq!(lengths(&cut(&chain(10, &[]), CutRule::Budget(160), |_| 16)), [10]);
        assert_eq!(lengths(&cut(&chain(41, &[]), CutRule::Budget(160), |_| 10)), [1, 2, 4, 8, 16, 10]);
        assert_eq!(lengths(&cut(&chain(60, &[]), CutRule::Budget(160), |_| 10)), [1, 2, 4, 8, 16, 16, 13]);
    }

    #[test]
    fn an_op_over_the_budget_has_a_submission_of_its_own() {
        let plan = chain(3, &[]);
        let cost = |step| if op(&plan, step) == 1 { 100 } else { 1 };
        assert_eq!(lengths(&cut(&plan, CutRule::Budget(16), cost)), [1, 1, 1]);
        assert_eq!(lengths(&cut(&chain(2, &[]), CutRule::Budget(0), |_| u64::MAX)), [1, 1]);
    }

    #[test]
    fn zeroing_stays_with_the_op_it_is_for() {
        let mut draft = Draft::new();
        for _ in 0..3 {
            let slot = draft.scratch(4);
            draft.dispatch(&[Access::read_write(slot, 0..4)]);
            draft.barrier();
        }
        let plan = plan(&draft.recording, &Caps::default());
        let cuts = cut(&plan, CutRule::Every(1), |_| 0);
        let zeros = |cut: &Cut| plan.steps_of(cut).filter(|(_, step)| matches!(step, Step::Zero(_))).count();
        assert_eq!(cuts.iter().map(zeros).collect::<Vec<_>>(), [1, 1, 1]);
    }
}
