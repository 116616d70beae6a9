//! A plan with all that its runs need, and one run of it.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sortie_plan::{Cut, CutRule, Ports, Touch};

use super::{BackendState, CachedPlan, Cuts, PlacedPlan, Resources, RunArgs};
use crate::{info::Limits, memory::Block, policy::Costs};

/// A planned recording that keeps its memory: every run uses the same, one after the other.
///
/// It does not change. A native one that is recorded anew is another, with the same ports and buffers; runs under way keep the one they began with.
pub(crate) struct FrozenPlan {
    /// The plan without divided dispatches.
    base: Arc<CachedPlan>,
    /// The plan that runs.
    pub(crate) planned: Arc<CachedPlan>,
    /// Where it is cut, if it is native.
    cuts: Arc<Cuts>,
    /// Complete, with all memory. None of the scratch memory counts as fresh: a run finds what the last one left.
    pub(crate) resources: Arc<Resources>,
    /// The recording that the device has of it, where it has one.
    pub(crate) native: Option<Box<dyn Any + Send + Sync>>,
    /// Buffers that their owner may destroy.
    pub(crate) imported: Vec<Arc<Block>>,
    /// What the backend keeps from run to run.
    pub(crate) state: BackendState,
    /// The version of the costs that its cuts were last compared with.
    compared: AtomicU64,
    /// Whether a submission has taken longer than its budget.
    overran: AtomicBool,
    /// Native runs so far.
    runs: AtomicU64,
    /// Whether a native run is done.
    ran: AtomicBool,
}

/// How the cuts of a native recording compare with those that the estimates ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutsFit {
    Good,
    /// It is cut into more submissions than it needs.
    TooMany,
    /// A submission would take longer than its budget.
    TooFew,
}

impl FrozenPlan {
    /// What the runs of `base` need, cut by `cuts`, which is of that plan. The payload has all memory.
    pub(crate) fn new(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Resources) -> Self {
        let imported = resources.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        Self::of(base, cuts, Arc::new(resources), imported)
    }

    fn of(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Arc<Resources>, imported: Vec<Arc<Block>>) -> Self {
        let planned = cuts.planned(&base).clone();
        Self {
            base,
            planned,
            cuts,
            resources,
            native: None,
            imported,
            state: BackendState::default(),
            compared: AtomicU64::new(u64::MAX),
            overran: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            ran: AtomicBool::new(false),
        }
    }

    /// The same with other cuts: another route of the plan that runs.
    pub(crate) fn cut_by(&self, cuts: Arc<Cuts>) -> Self {
        Self::of(self.base.clone(), cuts, self.resources.clone(), self.imported.clone())
    }

    /// The same with another plan, which divides other dispatches and has scratch memory and parameters of its own.
    pub(crate) fn planned_by(&self, cuts: Arc<Cuts>, resources: Resources) -> Self {
        Self::of(self.base.clone(), cuts, Arc::new(resources), self.imported.clone())
    }

    /// How the recording uses what is there before and after it.
    pub(crate) fn touches(&self) -> &Arc<[Touch]> {
        &self.planned.touches
    }

    pub(crate) fn inputs(&self) -> &Ports {
        &self.planned.recording.inputs
    }

    pub(crate) fn outputs(&self) -> &Ports {
        &self.planned.recording.outputs
    }

    /// The plan that a route of it, as [`FrozenPlan::wanted`] gives it, runs.
    pub(crate) fn planned_of(&self, cuts: &Cuts) -> Arc<CachedPlan> {
        cuts.planned(&self.base).clone()
    }

    /// Whether the device has a recording of it.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Where the device's recording is cut.
    pub(crate) fn recorded_cuts(&self) -> &Arc<Cuts> {
        &self.cuts
    }

    /// Where an encoded run is cut.
    pub(crate) fn encoded_cuts(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.planned.cuts(costs, limits, &self.resources, rule, false)
    }

    /// Where the device's recording would be cut, were it made now.
    pub(crate) fn wanted(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.base.cuts(costs, limits, &self.resources, rule, true)
    }

    /// Whether the cuts of the device's recording suit what is known of costs. They do not when their number is more than twice, or less than half, of what the
    /// estimates ask for; or when a submission has exceeded its budget, and the estimates ask for more.
    ///
    /// Asked before each run. Costs next to nothing while the estimates stay as they are.
    pub(crate) fn fit(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> CutsFit {
        let CutRule::Budget(_) = rule else { return CutsFit::Good };
        let (runs, version) = (self.runs.fetch_add(1, Ordering::Relaxed), costs.version());
        // Estimates may also drift, too little at a time for another version.
        if !runs.is_power_of_two() && self.compared.load(Ordering::Relaxed) == version {
            return CutsFit::Good;
        }
        let (have, want) = (self.cuts.added(), self.wanted(costs, limits, rule).added());
        let far = have.max(want) > 2 * have.min(want);
        if want < have && far {
            return CutsFit::TooMany;
        }
        if want > have && (far || self.overran.load(Ordering::Relaxed)) {
            return CutsFit::TooFew;
        }
        self.compared.store(version, Ordering::Relaxed);
        CutsFit::Good
    }

    /// A submission has taken longer than its budget.
    pub(crate) fn set_overran(&self) {
        self.overran.store(true, Ordering::Relaxed);
    }

    /// Pipelines that have run for the first time when a submission of a native run is done, the last one or not. A replay has pipelines of its own.
    pub(crate) fn first_runs(&self, last: bool) -> usize {
        if self.ran.load(Ordering::Relaxed) {
            return 0;
        }
        self.ran.store(last, Ordering::Relaxed);
        self.planned.plan.pipelines.len()
    }

    /// With what one run brings and asks for, cut as it was recorded for the device.
    pub(crate) fn placed<'a>(&'a self, run: Option<&'a RunArgs>) -> PlacedPlan<'a> {
        let (planned, resources) = (&*self.planned, &*self.resources);
        PlacedPlan { planned, cuts: self.cuts(), resources, blocks: &resources.blocks, run }
    }

    /// The submissions that it was recorded for the device in.
    pub(crate) fn cuts(&self) -> &[Cut] {
        &self.cuts.list
    }
}

impl fmt::Debug for FrozenPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("native", &self.is_native()).finish_non_exhaustive()
    }
}
