//! A plan cut into submissions, as suits what is known of costs at the moment.
//!
//! What a plan has to do is counted once, kind by kind, so that a batch that may stay whole is found out by a handful of look-ups however
//! long it is. Only one that may not is walked through op by op, and the result is kept until an estimate changes.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sortie_plan::{Lane, Op, OpKind, Part, Rule};

use super::{Payload, Planned};
use crate::{
    device::Shared,
    policy::{Chore, Costs, Effort},
};

/// What a dispatch or a transfer costs beside its groups or bytes, in groups or in KiB.
const FIXED: u64 = 16;
/// Most pieces of one dispatch.
const MOST_PIECES: u64 = 4096;
/// Room for the size class below a kind.
const CLASSES: u64 = 64;
/// The pipeline that zeroes scratch memory in the middle of a pass.
const ZEROING: Chore = Chore { kind: 0, units: 0.0, pipeline: 1 };

/// Where a plan is cut.
#[derive(Debug)]
pub(crate) struct Route {
    /// What runs instead, when dispatches had to be divided.
    divided: Option<Arc<Planned>>,
    pub(crate) parts: Vec<Part>,
    /// What each part has to do.
    pub(crate) efforts: Vec<Arc<Effort>>,
    /// Pieces that dispatches were divided into, beyond the dispatches.
    pub(crate) pieces: u64,
    /// What no part is to take longer than, in nanoseconds.
    pub(crate) budget: Option<u64>,
    /// Points at which what follows waits for what came before.
    pub(crate) barriers: u64,
    /// Of the plan: see [`Planned`].
    pub(crate) fused_ops: u64,
    pub(crate) uploads: u64,
    pub(crate) reads: u64,
}

/// What a route was found for: the rule, whether dispatches may be divided, and the version of the costs.
type Asked = (Rule, bool, u64);

/// Dispatches by number, ascending, and how many pieces each becomes.
type Pieces = Arc<[(u32, u32)]>;

/// The routes of a plan that are worth keeping.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The plan as it is.
    whole: OnceLock<Arc<Route>>,
    /// The last route of another kind, and what it was found for.
    last: Mutex<Option<(Asked, Arc<Route>)>>,
    /// The last division.
    divided: Mutex<Option<(Pieces, Arc<Planned>)>>,
}

impl Route {
    /// What runs: `planned`, whose route it is, unless dispatches were divided.
    pub(crate) fn planned<'a>(&'a self, planned: &'a Arc<Planned>) -> &'a Arc<Planned> {
        self.divided.as_ref().unwrap_or(planned)
    }

    /// How long each part should take, in nanoseconds.
    pub(crate) fn estimates(&self, costs: &Costs) -> impl Iterator<Item = u64> {
        self.efforts.iter().map(|effort| costs.estimate(effort))
    }

    /// Submissions that the recording did not ask for.
    pub(crate) fn cuts(&self) -> u64 {
        let asked = self.parts.last().map_or(0, |part| part.submission as usize + 1);
        (self.parts.len() - asked) as u64
    }
}

impl Planned {
    /// Where to cut it. Dispatches are divided where that is needed, possible and wanted.
    pub(crate) fn route(&self, shared: &Shared, payload: &Payload, rule: Rule, divides: bool) -> Arc<Route> {
        let costs = shared.costs();
        let whole = self.routes.whole.get_or_init(|| Arc::new(self.cut(None, self.plan.parts().collect(), None)));
        let fits = match rule {
            Rule::Never => true,
            Rule::Every(ops) => whole.parts.iter().all(|part| part.ops.len <= ops),
            Rule::Within(limit) => whole.estimates(costs).all(|estimate| estimate <= limit),
        };
        if fits {
            return whole.clone();
        }
        // Counting ops needs no estimates.
        let asked = (rule, divides, if let Rule::Within(_) = rule { costs.version() } else { 0 });
        let known = self.routes.last.lock().clone();
        if let Some((_, route)) = known.filter(|(of, _)| *of == asked) {
            return route;
        }
        let route = Arc::new(self.find_route(shared, payload, rule, divides));
        *self.routes.last.lock() = Some((asked, route.clone()));
        route
    }

    fn find_route(&self, shared: &Shared, payload: &Payload, rule: Rule, divides: bool) -> Route {
        let costs = self.each(shared.costs());
        let budget = if let Rule::Within(limit) = rule { Some(limit) } else { None };
        let pieces = match rule {
            Rule::Within(limit) if divides => self.pieces(shared, payload, &costs, limit),
            _ => Pieces::default(),
        };
        if pieces.is_empty() {
            return self.cut(None, sortie_plan::split(&self.plan, rule, |op| costs[op as usize]), budget);
        }
        let added = pieces.iter().map(|(_, count)| u64::from(*count) - 1).sum();
        let divided = self.divide(pieces);
        let costs = divided.each(shared.costs());
        let parts = sortie_plan::split(&divided.plan, rule, |op| costs[op as usize]);
        Route { pieces: added, ..divided.cut(Some(divided.clone()), parts, budget) }
    }

    /// What each op costs.
    fn each(&self, costs: &Costs) -> Vec<u64> {
        costs.each((0_u32..).take(self.recording.ops.len()).map(|op| self.chore(op)))
    }

    fn cut(&self, divided: Option<Arc<Self>>, parts: Vec<Part>, budget: Option<u64>) -> Route {
        let efforts = parts.iter().map(|part| self.effort(part)).collect();
        let barriers = self.plan.barriers_of(parts.iter().copied()) as u64;
        let fused_ops = self.tensors.as_ref().map_or(0, |tensors| tensors.joined);
        let [uploads, reads] = self.moved;
        Route { divided, parts, efforts, pieces: 0, budget, barriers, fused_ops, uploads, reads }
    }

    /// Dispatches that are too long by themselves, and how many pieces they need. Powers of two: estimates are never quite the same.
    fn pieces(&self, shared: &Shared, payload: &Payload, costs: &[u64], limit: u64) -> Pieces {
        let divisible = |op: u32| {
            let op = &self.recording.ops[op as usize];
            let kernel = || match payload.kernels.get(op.kernel as usize) {
                Some(kernel) => Some(kernel),
                None => self.tensors.as_ref()?.kernel(op.kernel),
            };
            op.kind == OpKind::Dispatch
                && !op.indirect
                && kernel().is_some_and(|kernel| kernel.check_hidden(shared.limits()).is_ok())
        };
        let long = (0_u32..).zip(costs.iter().copied()).filter(|(op, cost)| *cost > limit && divisible(*op));
        let pieces = long.filter_map(|(op, cost)| {
            let groups = self.groups(op);
            let fits = |count: &u64| {
                u128::from(cost) * u128::from(groups.div_ceil(*count)) <= u128::from(limit) * u128::from(groups)
            };
            let most = groups.min(MOST_PIECES);
            let count = (1..).map(|power| 1 << power).take_while(|count| *count < most).find(fits).unwrap_or(most);
            (count > 1 && groups < 1 << 31).then(|| Some((op, u32::try_from(count).ok()?)))?
        });
        pieces.collect()
    }

    fn divide(&self, pieces: Pieces) -> Arc<Self> {
        let known = self.routes.divided.lock().clone();
        if let Some((_, divided)) = known.filter(|(of, _)| *of == pieces) {
            return divided;
        }
        let divided = Arc::new(self.divided(&pieces));
        *self.routes.divided.lock() = Some((pieces, divided.clone()));
        divided
    }

    fn effort(&self, part: &Part) -> Arc<Effort> {
        let zeroes = !self.caps.host && self.plan.clears.iter().any(|clear| !clear.first);
        let ops = self.plan.order[part.ops.range()].iter().map(|op| self.chore(*op));
        Arc::new(Effort::new(ops.chain(zeroes.then_some(ZEROING))))
    }

    /// Workgroups of the whole dispatch.
    fn groups(&self, op: u32) -> u64 {
        let grid = self.recording.ops[op as usize].grid;
        grid.iter().fold(1, |product: u64, groups| product.saturating_mul(u64::from(*groups)))
    }

    /// What an op has to do. Of one kind is what runs the same kernel over about as many workgroups: that costs the same for each of them.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn chore(&self, number: u32) -> Chore {
        let op = &self.recording.ops[number as usize];
        let (kernel, all, share) = match op.kind {
            // There are no tensor operations any more.
            OpKind::Barrier | OpKind::Split | OpKind::Tensor => return Chore { kind: 0, units: 0.0, pipeline: 0 },
            OpKind::Copy | OpKind::Fill | OpKind::Write | OpKind::Read => {
                let bytes = self.recording.accesses_of(op).last().map_or(0, |access| access.end - access.start);
                (1, bytes >> 10, 1.0)
            }
            OpKind::Dispatch => {
                let all = self.groups(number);
                let share = if op.share.len > 0 { f64::from(op.share.len) / all as f64 } else { 1.0 };
                let native = self.tensors.as_ref().is_some_and(|tensors| tensors.is_native(op));
                // Native kernels are of one kind: they come and go with their plans.
                (if native { 0 } else { 1 + self.recording.kernels[op.kernel as usize] }, all, share)
            }
        };
        let class = u64::from(all.checked_ilog2().unwrap_or(0));
        let units = (all.saturating_add(FIXED)) as f64 * share;
        Chore { kind: kernel.wrapping_mul(CLASSES) + class, units, pipeline: self.pipeline(op) }
    }

    /// Names the pipeline that an op runs, for a driver that compiles it then; 0 where there is none.
    fn pipeline(&self, op: &Op) -> u64 {
        let runs = matches!(op.kind, OpKind::Dispatch | OpKind::Fill) && op.lane == Lane::Compute && !self.caps.host;
        let kernel = self.recording.kernels.get(op.kernel as usize).filter(|_| runs);
        kernel.map_or(0, |kernel| 2 * kernel + u64::from(op.params[1] > 0))
    }
}
