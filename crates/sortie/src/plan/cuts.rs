//! Cuts a plan into submissions, by the current cost estimates.
//!
//! The work of a plan is counted once per kind of work. So a few look-ups decide whether a batch of any length can stay
//! whole. Only a batch that cannot is examined op by op, and the result is kept until an estimate changes.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sortie_plan::{Cut, CutRule, Dispatch, Groups, Lane, OpGrid, OpId, OpKind, Step, cut};

use super::{CachedPlan, Resources};
use crate::{
    info::Limits,
    policy::{CostKey, Costs, WorkEstimate},
};

/// Fixed cost of a dispatch or transfer, in workgroups or KiB.
const FIXED: u64 = 16;
/// Most pieces of one dispatch.
const MAX_PIECES: u64 = 4096;
/// Size classes per kind.
const CLASSES: u64 = 64;
/// Stands for the pipeline of the fill kernel, which also zeroes scratch memory in the middle of a pass.
const FILL_PIPELINE: u64 = 1;
const ZEROING: CostKey = CostKey { kind: 0, units: 0.0, pipeline: FILL_PIPELINE };

/// How a plan is cut into submissions.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// The plan to run instead, if dispatches had to be divided.
    divided: Option<Arc<CachedPlan>>,
    pub(crate) list: Vec<Cut>,
    /// The work of each submission.
    pub(crate) estimates: Vec<Arc<WorkEstimate>>,
    /// Pieces of divided dispatches, minus the number of those dispatches.
    pub(crate) pieces: u64,
    /// The budget of each submission, in nanoseconds.
    pub(crate) budget: Option<u64>,
    /// Barriers: points at which later work waits for earlier work.
    pub(crate) barriers: u64,
    /// Of the plan: see [`CachedPlan`].
    pub(crate) fused_ops: u64,
    pub(crate) uploads: u64,
    pub(crate) reads: u64,
}

/// The key of cached cuts: the rule, whether dispatches may be divided, and the version of the costs.
type CutsKey = (CutRule, bool, u64);

/// Dispatches by op number, ascending, and the number of pieces of each.
type Pieces = Arc<[(u32, u32)]>;

/// The cuts of a plan that are worth keeping.
#[derive(Debug, Default)]
pub(super) struct CutsCache {
    /// The plan with only its recorded splits.
    whole: OnceLock<Arc<Cuts>>,
    /// The last other cuts, with their key.
    last: Mutex<Option<(CutsKey, Arc<Cuts>)>>,
    /// The last plan with divided dispatches.
    divided: Mutex<Option<(Pieces, Arc<CachedPlan>)>>,
}

impl Cuts {
    /// The plan to run: `planned`, which these cuts are of, unless dispatches were divided.
    pub(crate) fn planned<'a>(&'a self, planned: &'a Arc<CachedPlan>) -> &'a Arc<CachedPlan> {
        self.divided.as_ref().unwrap_or(planned)
    }

    /// The same cuts of a plan with all immediates in the parameter arena, which may begin with one more step.
    pub(crate) fn with_first_step(&self, added: bool) -> Self {
        let mut list = self.list.clone();
        if added {
            list.iter_mut().skip(1).for_each(|cut| cut.steps.start += 1);
            list.iter_mut().take(1).for_each(|cut| cut.steps.len += 1);
        }
        Self { divided: None, list, estimates: self.estimates.clone(), ..*self }
    }

    /// How long each submission should take, in nanoseconds.
    pub(crate) fn estimates(&self, costs: &Costs) -> impl Iterator<Item = u64> {
        self.estimates.iter().map(|estimate| costs.estimate(estimate))
    }

    /// The number of submissions beyond those that the recording asked for.
    pub(crate) fn added(&self) -> u64 {
        let asked = self.list.last().map_or(0, |cut| cut.section as usize + 1);
        (self.list.len() - asked) as u64
    }
}

impl CachedPlan {
    /// Its cuts by this rule. With `divides`, dispatches that exceed the budget are divided where possible.
    pub(crate) fn cuts(
        &self,
        costs: &Costs,
        limits: &Limits,
        resources: &Resources,
        rule: CutRule,
        divides: bool,
    ) -> Arc<Cuts> {
        let whole = self.cuts_cache.whole.get_or_init(|| Arc::new(self.cut_into(None, self.plan.whole(), None)));
        let fits = match rule {
            CutRule::Never => true,
            CutRule::Every(ops) => whole.list.iter().all(|cut| cut.ops <= ops),
            CutRule::Budget(limit) => whole.estimates(costs).all(|estimate| estimate <= limit),
        };
        if fits {
            return whole.clone();
        }
        // Counting ops needs no estimates.
        let asked = (rule, divides, if let CutRule::Budget(_) = rule { costs.version() } else { 0 });
        let known = self.cuts_cache.last.lock().clone();
        if let Some((_, cuts)) = known.filter(|(of, _)| *of == asked) {
            return cuts;
        }
        let cuts = Arc::new(self.find_cuts(costs, limits, resources, rule, divides));
        *self.cuts_cache.last.lock() = Some((asked, cuts.clone()));
        cuts
    }

    fn find_cuts(&self, known: &Costs, limits: &Limits, resources: &Resources, rule: CutRule, divides: bool) -> Cuts {
        let costs = self.each(known);
        let budget = if let CutRule::Budget(limit) = rule { Some(limit) } else { None };
        let pieces = match rule {
            CutRule::Budget(limit) if divides => self.pieces(limits, resources, &costs, limit),
            _ => Pieces::default(),
        };
        if pieces.is_empty() {
            return self.cut_into(None, cut(&self.plan, rule, |step| costs[step.0 as usize]), budget);
        }
        let added = pieces.iter().map(|(_, count)| u64::from(*count) - 1).sum();
        let divided = self.divide(pieces);
        let costs = divided.each(known);
        let list = cut(&divided.plan, rule, |step| costs[step.0 as usize]);
        Cuts { pieces: added, ..divided.cut_into(Some(divided.clone()), list, budget) }
    }

    /// The cost of each step.
    fn each(&self, costs: &Costs) -> Vec<u64> {
        let nothing = CostKey { kind: 0, units: 0.0, pipeline: 0 };
        costs.each(self.plan.steps.iter().map(|step| self.cost_key(*step).unwrap_or(nothing)))
    }

    fn cut_into(&self, divided: Option<Arc<Self>>, list: Vec<Cut>, budget: Option<u64>) -> Cuts {
        let estimates = list.iter().map(|cut| self.estimate(cut)).collect();
        let barriers = self.plan.barriers(&list) as u64;
        let fused_ops = self.tensors.as_ref().map_or(0, |tensors| tensors.fused_ops);
        let (uploads, reads) = (self.plan.writes.len() as u64, self.plan.reads.len() as u64);
        Cuts { divided, list, estimates, pieces: 0, budget, barriers, fused_ops, uploads, reads }
    }

    /// Dispatches that exceed the budget by themselves, and how many pieces they need. The numbers are powers of two,
    /// so that small changes of the estimates do not change them.
    fn pieces(&self, limits: &Limits, resources: &Resources, costs: &[u64], limit: u64) -> Pieces {
        let long = self.plan.steps.iter().zip(costs.iter().copied()).filter(|(_, cost)| *cost > limit);
        let pieces = long.filter_map(|(step, cost)| {
            let Step::Dispatch(id) = *step else { return None };
            let dispatch = &self.plan[id];
            let kernel = match resources.kernels.get(dispatch.kernel.0 as usize) {
                Some(kernel) => kernel,
                None => self.tensors.as_ref()?.kernel(dispatch.kernel)?,
            };
            let divisible = !matches!(dispatch.groups, Groups::Indirect(_));
            if !divisible || kernel.check_hidden(limits).is_err() {
                return None;
            }
            let groups = self.groups(dispatch.op).0;
            let fits = |count: &u64| {
                u128::from(cost) * u128::from(groups.div_ceil(*count)) <= u128::from(limit) * u128::from(groups)
            };
            let most = groups.min(MAX_PIECES);
            let count = (1..).map(|power| 1 << power).take_while(|count| *count < most).find(fits).unwrap_or(most);
            (count > 1 && groups < 1 << 31).then(|| Some((dispatch.op.0, u32::try_from(count).ok()?)))?
        });
        let mut pieces: Vec<_> = pieces.collect();
        // Recording order.
        pieces.sort_unstable();
        pieces.into()
    }

    fn divide(&self, pieces: Pieces) -> Arc<Self> {
        let known = self.cuts_cache.divided.lock().clone();
        if let Some((_, divided)) = known.filter(|(of, _)| *of == pieces) {
            return divided;
        }
        let divided = Arc::new(self.divided(&pieces));
        *self.cuts_cache.divided.lock() = Some((pieces, divided.clone()));
        divided
    }

    fn estimate(&self, cut: &Cut) -> Arc<WorkEstimate> {
        let zeroes = !self.caps.native_programs && self.plan.zeroes_in_passes();
        // Sequences of equal dispatches are the common case.
        let mut last: Option<(&Dispatch, CostKey)> = None;
        let steps = self.plan.steps_of(cut).filter_map(|(_, step)| {
            let Step::Dispatch(id) = step else { return self.cost_key(step) };
            let dispatch = &self.plan[id];
            match last {
                Some((known, cost_key)) if known.kernel == dispatch.kernel && is_same_grid(known, dispatch) => {
                    Some(cost_key)
                }
                _ => {
                    last = self.cost_key(step).map(|cost_key| (dispatch, cost_key));
                    last.map(|(_, cost_key)| cost_key)
                }
            }
        });
        Arc::new(WorkEstimate::new(steps.chain(zeroes.then_some(ZEROING))))
    }

    /// Workgroups of the whole dispatch, and of this piece of it.
    fn groups(&self, op: OpId) -> (u64, u64) {
        let all =
            |groups: [u32; 3]| groups.iter().fold(1_u64, |product, side| product.saturating_mul(u64::from(*side)));
        match self.recording.ops[op.0 as usize].kind {
            OpKind::Dispatch { grid: OpGrid::Direct(groups), .. } => {
                let all = all(groups);
                (all, all)
            }
            OpKind::Dispatch { grid: OpGrid::Wrapped { groups, share }, .. } => {
                let all = all(groups);
                (all, if share.len > 0 { u64::from(share.len) } else { all })
            }
            _ => (0, 0),
        }
    }

    /// The kind and amount of a step's work. Dispatches of one kernel over about as many workgroups are one kind: each
    /// workgroup costs the same.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn cost_key(&self, step: Step) -> Option<CostKey> {
        let kib = |access: &sortie_plan::Access| (access.end - access.start) >> 10;
        let (kernel, all, share) = match step {
            Step::Params | Step::Zero(_) | Step::Input(_) | Step::Barrier(_) | Step::Output(_) => {
                return None;
            }
            Step::Copy(id) => (1, kib(&self.plan[id].to), 1.0),
            Step::Fill(id) => (1, kib(&self.plan[id].to), 1.0),
            Step::Write(id) => (1, kib(&self.plan[id].to), 1.0),
            Step::Read(id) => (1, kib(&self.plan[id].from), 1.0),
            Step::Dispatch(id) => {
                let dispatch = &self.plan[id];
                let native = self.tensors.as_ref().is_some_and(|tensors| tensors.is_native(dispatch.kernel));
                let (all, share) = self.groups(dispatch.op);
                let share = if all > 0 { share as f64 / all as f64 } else { 1.0 };
                // Native kernels are one kind, because they exist only as long as their plans.
                (if native { 0 } else { 1 + self.recording.kernels[dispatch.kernel.0 as usize] }, all, share)
            }
        };
        let class = u64::from(all.checked_ilog2().unwrap_or(0));
        let units = (all.saturating_add(FIXED)) as f64 * share;
        Some(CostKey { kind: kernel.wrapping_mul(CLASSES) + class, units, pipeline: self.pipeline(step) })
    }

    /// Identifies the pipeline that a step runs, for drivers that compile it at its first run; 0 if there is none.
    fn pipeline(&self, step: Step) -> u64 {
        match step {
            _ if self.caps.native_programs => 0,
            Step::Dispatch(id) => {
                let dispatch = &self.plan[id];
                let wrapped = matches!(dispatch.groups, Groups::Wrapped(_));
                2 * self.recording.kernels[dispatch.kernel.0 as usize] + u64::from(wrapped)
            }
            Step::Fill(id) if self.plan[id].lane() == Lane::Compute => FILL_PIPELINE,
            _ => 0,
        }
    }
}

/// Whether two dispatches have the same grid, and neither is a piece of a larger one.
fn is_same_grid(one: &Dispatch, other: &Dispatch) -> bool {
    matches!((one.groups, other.groups), (Groups::Direct(one), Groups::Direct(other)) if one == other)
}
