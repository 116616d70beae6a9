//! The plan of a replay, with everything that its runs need.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sortie_plan::{Cut, CutRule, Ports, Touch};

use super::{BackendState, CachedPlan, Cuts, PlacedPlan, Resources, RunArgs};
use crate::{info::Limits, memory::Block, policy::Costs};

/// A planned recording that keeps its memory: all runs use the same memory, one after the other.
///
/// It does not change. Rerecording a native one makes a new one with the same ports and buffers; runs in flight keep
/// the one they started with.
pub(crate) struct FrozenPlan {
    /// The plan without divided dispatches.
    base: Arc<CachedPlan>,
    /// The plan that runs.
    pub(crate) planned: Arc<CachedPlan>,
    /// The cuts of the native recording.
    cuts: Arc<Cuts>,
    /// Complete, with all memory. No scratch memory counts as fresh: it holds the data of the last run.
    pub(crate) resources: Arc<Resources>,
    /// The device's own recording, if there is one.
    pub(crate) native: Option<Box<dyn Any + Send + Sync>>,
    /// Imported buffers, which their owner may destroy.
    pub(crate) imported: Vec<Arc<Block>>,
    /// Backend state kept from run to run.
    pub(crate) state: BackendState,
    /// The version of the costs that its cuts were last compared with.
    compared: AtomicU64,
    /// Whether a submission took longer than its budget.
    overran: AtomicBool,
    /// Native runs so far.
    runs: AtomicU64,
    /// Whether a native run has finished.
    ran: AtomicBool,
}

/// How the cuts of a native recording compare with those that the cost estimates call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutsFit {
    Good,
    /// It is cut into more submissions than it needs.
    TooMany,
    /// A submission would take longer than its budget.
    TooFew,
}

impl FrozenPlan {
    /// Freezes `base` with `cuts`, which are of that plan. `resources` has all memory.
    pub(crate) fn new(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Resources) -> Self {
        let imported = resources.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        Self::of(base, cuts, Arc::new(resources), imported)
    }

    fn of(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Arc<Resources>, imported: Vec<Arc<Block>>) -> Self {
        let planned = cuts.planned(&base).clone();
        // Scratch memory holds the data of the last run.
        resources.blocks[planned.plan.memory.len()..].iter().flatten().for_each(|block| block.mark_used());
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

    /// The same plan with other cuts.
    pub(crate) fn cut_by(&self, cuts: Arc<Cuts>) -> Self {
        Self::of(self.base.clone(), cuts, self.resources.clone(), self.imported.clone())
    }

    /// The same with a plan that divides other dispatches and has its own scratch memory and parameters.
    pub(crate) fn planned_by(&self, cuts: Arc<Cuts>, resources: Resources) -> Self {
        Self::of(self.base.clone(), cuts, Arc::new(resources), self.imported.clone())
    }

    /// How the recording uses memory that exists before and after it.
    pub(crate) fn touches(&self) -> &Arc<[Touch]> {
        &self.planned.touches
    }

    pub(crate) fn inputs(&self) -> &Ports {
        &self.planned.recording.inputs
    }

    pub(crate) fn outputs(&self) -> &Ports {
        &self.planned.recording.outputs
    }

    /// The plan that runs with these cuts, which come from [`FrozenPlan::wanted`].
    pub(crate) fn planned_of(&self, cuts: &Cuts) -> Arc<CachedPlan> {
        cuts.planned(&self.base).clone()
    }

    /// Whether the device has a recording of it.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// The cuts of the device's recording.
    pub(crate) fn recorded_cuts(&self) -> &Arc<Cuts> {
        &self.cuts
    }

    /// The cuts of an encoded run.
    pub(crate) fn encoded_cuts(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.planned.cuts(costs, limits, &self.resources, rule, false)
    }

    /// The cuts that the device's recording would have if it were made now.
    pub(crate) fn wanted(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.base.cuts(costs, limits, &self.resources, rule, true)
    }

    /// Whether the cuts of the device's recording fit the current cost estimates. They do not fit if their number is
    /// more than twice or less than half of what the estimates call for, or if a submission exceeded its budget and the
    /// estimates call for more cuts.
    ///
    /// Called before each run. Costs next to nothing while the estimates do not change.
    pub(crate) fn fit(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> CutsFit {
        let CutRule::Budget(_) = rule else { return CutsFit::Good };
        let (runs, version) = (self.runs.fetch_add(1, Ordering::Relaxed), costs.version());
        // Estimates may also drift in steps too small for a new version.
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

    /// A submission took longer than its budget.
    pub(crate) fn set_overran(&self) {
        self.overran.store(true, Ordering::Relaxed);
    }

    /// The number of pipelines that ran for the first time in a submission of a native run, the last one or not. A
    /// replay has its own pipelines.
    pub(crate) fn first_runs(&self, last: bool) -> usize {
        if self.ran.load(Ordering::Relaxed) {
            return 0;
        }
        self.ran.store(last, Ordering::Relaxed);
        self.planned.plan.pipelines.len()
    }

    /// The plan with the arguments of one run and the cuts of the device's recording.
    pub(crate) fn placed<'a>(&'a self, run: Option<&'a RunArgs>) -> PlacedPlan<'a> {
        let (planned, resources) = (&*self.planned, &*self.resources);
        PlacedPlan { planned, cuts: self.cuts(), resources, blocks: &resources.blocks, run }
    }

    /// The submissions of the device's recording.
    pub(crate) fn cuts(&self) -> &[Cut] {
        &self.cuts.list
    }
}
