//! A plan with all that its runs need, and one run of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use sortie_plan::{Cut, CutRule, MemoryId, Plan, Port, Ports, SlotId, Step, Touch};

use super::{
    Payload, Route,
    plans::{Planned, Resolved},
    vulkan::Secondary,
};
use crate::{device::Shared, memory::Block, profile::Log};

/// A planned recording that keeps its memory: every run uses the same, one after the other.
///
/// It does not change. A native one that is recorded anew is another, with the same ports and buffers; runs under way keep the one they began with.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The plan without divided dispatches.
    base: Arc<Planned>,
    /// The plan that runs.
    pub(crate) planned: Arc<Planned>,
    /// Where it is cut, if it is native.
    route: Arc<Route>,
    /// Complete, with all memory. None of the scratch memory counts as fresh: a run finds what the last one left.
    pub(crate) payload: Arc<Payload>,
    /// The same as Vulkan has it, where it can be.
    pub(super) native: Option<Secondary>,
    /// Buffers that their owner may destroy.
    pub(super) imported: Vec<Arc<Block>>,
    /// Taken out while a run uses it.
    pub(super) resolved: Mutex<Resolved>,
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
pub(crate) enum Fit {
    Good,
    /// It is cut into more submissions than it needs.
    TooMany,
    /// A submission would take longer than its budget.
    TooFew,
}

impl Frozen {
    /// What the runs of `base` need, cut by `route`, which is of that plan. The payload has all memory.
    pub(crate) fn new(base: Arc<Planned>, route: Arc<Route>, payload: Payload) -> Self {
        let imported = payload.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        Self::of(base, route, Arc::new(payload), imported)
    }

    fn of(base: Arc<Planned>, route: Arc<Route>, payload: Arc<Payload>, imported: Vec<Arc<Block>>) -> Self {
        let planned = route.planned(&base).clone();
        Self {
            base,
            planned,
            route,
            payload,
            native: None,
            imported,
            resolved: Mutex::default(),
            compared: AtomicU64::new(u64::MAX),
            overran: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            ran: AtomicBool::new(false),
        }
    }

    /// The same with other cuts: another route of the plan that runs.
    pub(super) fn cut_by(&self, route: Arc<Route>) -> Self {
        Self::of(self.base.clone(), route, self.payload.clone(), self.imported.clone())
    }

    /// The same with another plan, which divides other dispatches and has scratch memory and parameters of its own.
    pub(super) fn planned_by(&self, route: Arc<Route>, payload: Payload) -> Self {
        Self::of(self.base.clone(), route, Arc::new(payload), self.imported.clone())
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

    /// The plan that a route of it, as [`Frozen::wanted`] gives it, runs.
    pub(super) fn planned_of(&self, route: &Route) -> Arc<Planned> {
        route.planned(&self.base).clone()
    }

    /// Whether the device has a recording of it.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Where the device's recording is cut.
    pub(crate) fn recorded_route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Where an encoded run is cut.
    pub(crate) fn encoded_route(&self, shared: &Shared, rule: CutRule) -> Arc<Route> {
        self.planned.route(shared, &self.payload, rule, false)
    }

    /// Where the device's recording would be cut, were it made now.
    pub(crate) fn wanted(&self, shared: &Shared, rule: CutRule) -> Arc<Route> {
        self.base.route(shared, &self.payload, rule, true)
    }

    /// Whether the cuts of the device's recording suit what is known of costs. They do not when their number is more than twice, or less than half, of what the
    /// estimates ask for; or when a submission has exceeded its budget, and the estimates ask for more.
    ///
    /// Asked before each run. Costs next to nothing while the estimates stay as they are.
    pub(crate) fn fit(&self, shared: &Shared, rule: CutRule) -> Fit {
        let CutRule::Budget(_) = rule else { return Fit::Good };
        let (runs, version) = (self.runs.fetch_add(1, Ordering::Relaxed), shared.costs().version());
        // Estimates may also drift, too little at a time for another version.
        if !runs.is_power_of_two() && self.compared.load(Ordering::Relaxed) == version {
            return Fit::Good;
        }
        let (have, want) = (self.route.added(), self.wanted(shared, rule).added());
        let far = have.max(want) > 2 * have.min(want);
        if want < have && far {
            return Fit::TooMany;
        }
        if want > have && (far || self.overran.load(Ordering::Relaxed)) {
            return Fit::TooFew;
        }
        self.compared.store(version, Ordering::Relaxed);
        Fit::Good
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
    pub(super) fn placed<'a>(&'a self, run: Option<&'a Errand>) -> PlacedPlan<'a> {
        let (planned, payload) = (&*self.planned, &*self.payload);
        PlacedPlan { planned, cuts: self.cuts(), payload, blocks: &payload.blocks, run }
    }

    /// The submissions that it was recorded for the device in.
    pub(super) fn cuts(&self) -> &[Cut] {
        &self.route.cuts
    }
}

/// What one run brings, and asks for.
#[derive(Debug, Default)]
pub(crate) struct Errand {
    /// The data of all inputs.
    pub(crate) data: Vec<u8>,
    /// Which outputs somebody asked for, by where their data will be.
    pub(crate) reads: Vec<u64>,
    /// One of them was asked for more than once.
    pub(crate) twice: bool,
    /// Not to be done by the device's own recording.
    pub(crate) encoded: bool,
    /// Where somebody wants to know what it takes.
    pub(crate) log: Option<Arc<Log>>,
}

/// A plan that has been given memory and data.
#[derive(Clone, Copy)]
pub(crate) struct PlacedPlan<'a> {
    pub(crate) planned: &'a Planned,
    /// Its submissions.
    pub(crate) cuts: &'a [Cut],
    /// Kernels and data.
    pub(crate) payload: &'a Payload,
    /// Memory: that of the slots, then the scratch buffers of the plan, then the parameters.
    pub(crate) blocks: &'a [Option<Arc<Block>>],
    /// What this run of a replay brings and asks for.
    pub(crate) run: Option<&'a Errand>,
}

impl<'a> PlacedPlan<'a> {
    pub(crate) fn plan(&self) -> &'a Plan {
        &self.planned.plan
    }

    /// Whether a step is to be done: scratch that comes zeroed is not zeroed, and outputs that were not asked for are not read.
    #[inline]
    pub(crate) fn wants(&self, step: Step) -> bool {
        match step {
            Step::Zero(id) => {
                let zero = &self.planned.plan[id];
                !zero.first || !self.block(zero.memory).fresh()
            }
            Step::Output(id) => self.reads(id.of(&self.planned.recording.outputs)),
            _ => true,
        }
    }

    fn reads(&self, port: Port) -> bool {
        self.run.is_some_and(|errand| errand.reads.contains(&port.start))
    }

    /// A piece of memory.
    #[inline]
    pub(crate) fn block(&self, memory: MemoryId) -> &'a Arc<Block> {
        self.blocks[memory.0 as usize].as_ref().unwrap_or_else(|| unreachable!("memory in use has a block"))
    }

    /// The memory that a slot lies on.
    #[inline]
    pub(crate) fn block_of(&self, slot: SlotId) -> &'a Arc<Block> {
        self.block(self.plan().memory_of(slot))
    }

    /// The memory of the parameters, if there are any.
    pub(crate) fn params(&self) -> Option<&'a Arc<Block>> {
        self.blocks.get(self.plan().params_memory().0 as usize).and_then(Option::as_ref)
    }

    /// Room that reads need.
    pub(super) fn read_bytes(&self) -> u64 {
        match self.run {
            None => self.payload.read_bytes,
            Some(errand) if errand.reads.is_empty() => 0,
            Some(_) => self.planned.recording.outputs.bytes(),
        }
    }

    /// Where the data of inputs lies in the upload buffer: behind those of writes and all hidden parameters.
    pub(super) fn data_start(&self) -> u64 {
        (self.payload.uploads.len() as u64 + u64::from(self.plan().params_bytes)).next_multiple_of(8)
    }

    /// The data of inputs.
    pub(super) fn data(&self) -> &'a [u8] {
        self.run.map_or(&[], |errand| &errand.data)
    }

    /// Inputs with data.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.planned.recording.inputs.iter().filter(|port| port.bytes > 0)
    }

    /// Outputs that this run asks for.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        let this = *self;
        self.planned.recording.outputs.iter().filter(move |port| this.reads(**port))
    }
}
