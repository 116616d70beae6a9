//! The plan of a replay, or of a batch that is resubmitted, with everything that its runs need.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sortie_plan::{Cut, CutRule, Ports};

use super::{BackendState, CachedPlan, Cuts, PlacedPlan, Resources, RunArgs};
use crate::{
    info::Limits,
    memory::Block,
    metrics::{AtomicCounter, Counters},
    policy::Costs,
};

/// A planned recording that keeps its memory: all runs use the same memory, one after the other.
///
/// It does not change. Rerecording a native one makes a new one with the same ports and buffers; runs in flight keep
/// the one they started with.
///
/// That of a batch keeps only scratch memory: each run brings the user's buffers, which are the ones that it was
/// recorded with ([`FrozenPlan::without_buffers`]).
#[derive(derive_more::Debug)]
#[debug("FrozenPlan {{ native: {}, .. }}", self.is_native())]
pub(crate) struct FrozenPlan {
    /// The plan without divided dispatches.
    base: Arc<CachedPlan>,
    /// The plan that runs.
    pub(crate) planned: Arc<CachedPlan>,
    /// The cuts of the native recording.
    pub(crate) cuts: Arc<Cuts>,
    /// Complete, with all memory. No scratch memory counts as fresh: it holds the data of the last run.
    pub(crate) resources: Arc<Resources>,
    /// The device's own recording, if there is one.
    pub(crate) native: Option<Box<dyn Any + Send + Sync>>,
    /// Memory of a native recording for the data of writes and reads, and for indirect grids.
    pub(crate) staged: StagedMemory,
    kind: RunKind,
    /// Bytes of the data of writes in the recording.
    upload_bytes: u64,
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
    /// When it was last used, on the clock of `device/recordings.rs`.
    last_used: AtomicU64,
    _counted: Option<CountedBytes>,
}

/// Bytes of device memory in [`Metrics::recorded_bytes`](crate::metrics::Metrics::recorded_bytes), until dropped.
struct CountedBytes {
    counters: Arc<Counters>,
    bytes: u64,
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.counters.recorded_bytes.sub(self.bytes);
    }
}

/// What runs differ in.
#[derive(Clone, Copy, Debug)]
enum RunKind {
    /// In the data of inputs.
    Replay,
    /// In the data of writes.
    Batch {
        /// And in immediates, so each run uploads the parameters.
        refreshes_params: bool,
    },
}

/// Device memory from which a native recording takes the data of its writes, to which it copies that of its reads, and
/// in which it keeps its indirect grids once they are checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct StagedMemory {
    pub(crate) writes: Option<Arc<Block>>,
    pub(crate) reads: Option<Arc<Block>>,
    pub(crate) grids: Option<Arc<Block>>,
}

impl StagedMemory {
    pub(crate) fn blocks(&self) -> [&Option<Arc<Block>>; 3] {
        [&self.writes, &self.reads, &self.grids]
    }
}

/// Bytes of an indirect grid: three counts.
pub(crate) const GRID_BYTES: u64 = 12;

/// Runs with data of one native recording that are in flight at once. Others are encoded.
pub(crate) const MAX_RUNS_WITH_DATA: usize = 8;

/// Data that each run of a native recording moves between the host and this block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTransfer<'a> {
    pub(crate) block: &'a Block,
    /// Offset in the data of the run.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
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

impl CutsFit {
    /// A recording with `have` cuts does not fit if that is more than twice or less than half of the `want` that the
    /// estimates call for, or if a submission overran its budget and they call for more.
    fn of(have: u64, want: u64, overran: bool) -> Self {
        let far = have.max(want) > 2 * have.min(want);
        if want < have && far {
            Self::TooMany
        } else if want > have && (far || overran) {
            Self::TooFew
        } else {
            Self::Good
        }
    }
}

impl FrozenPlan {
    /// Freezes `base` with `cuts`, which are of that plan. `resources` has all memory.
    pub(crate) fn new(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Resources) -> Self {
        let imported = resources.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        Self::of(base, cuts, Arc::new(resources), imported)
    }

    fn of(base: Arc<CachedPlan>, cuts: Arc<Cuts>, resources: Arc<Resources>, imported: Vec<Arc<Block>>) -> Self {
        let planned = cuts.planned(&base).clone();
        let upload_bytes = resources.uploads.len() as u64;
        // Scratch memory holds the data of the last run.
        resources.blocks[planned.plan.memory.len()..].iter().flatten().for_each(|block| block.mark_used());
        Self {
            base,
            planned,
            cuts,
            resources,
            native: None,
            staged: StagedMemory::default(),
            kind: RunKind::Replay,
            upload_bytes,
            imported,
            state: BackendState::default(),
            compared: AtomicU64::new(u64::MAX),
            overran: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            ran: AtomicBool::new(false),
            last_used: AtomicU64::new(0),
            _counted: None,
        }
    }

    /// The same plan with other cuts.
    pub(crate) fn cut_by(&self, cuts: Arc<Cuts>) -> Self {
        let next = Self::of(self.base.clone(), cuts, self.resources.clone(), self.imported.clone());
        Self { staged: self.staged.clone(), ..next }
    }

    /// The same with a plan that divides other dispatches and has its own scratch memory and parameters.
    pub(crate) fn planned_by(&self, cuts: Arc<Cuts>, resources: Resources) -> Self {
        let next = Self::of(self.base.clone(), cuts, Arc::new(resources), self.imported.clone());
        Self { staged: self.staged.clone(), ..next }
    }

    /// The plan of a recorded batch: each run has its own data of writes and, if `refreshes_params`, its own parameters.
    pub(crate) fn of_batch(self, refreshes_params: bool) -> Self {
        Self { kind: RunKind::Batch { refreshes_params }, ..self }
    }

    /// Whether each run has its own parameters.
    pub(crate) fn refreshes_params(&self) -> bool {
        matches!(self.kind, RunKind::Batch { refreshes_params: true })
    }

    /// The same without the buffers of the batch that it was recorded from, nor its data.
    pub(crate) fn without_buffers(mut self) -> Self {
        let Resources { blocks, kernels, read_bytes, .. } = &*self.resources;
        let slots = self.planned.plan.memory.len();
        let own = blocks.iter().enumerate().map(|(at, block)| block.clone().filter(|_| at >= slots)).collect();
        let resources =
            Resources { blocks: own, kernels: kernels.clone(), read_bytes: *read_bytes, ..Resources::default() };
        self.resources = Arc::new(resources);
        self.imported = Vec::new();
        self
    }

    /// Counts its memory in the metrics, as long as it lives.
    pub(crate) fn counted(self, counters: Arc<Counters>) -> Self {
        let bytes = self.own_bytes();
        counters.recorded_bytes.add(bytes);
        Self { _counted: Some(CountedBytes { counters, bytes }), ..self }
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    pub(crate) fn set_last_used(&self, now: u64) {
        self.last_used.store(now, Ordering::Relaxed);
    }

    /// Most bytes that it keeps besides buffers of the user, with the host memory of all runs that may be in flight.
    pub(crate) fn max_bytes(&self) -> u64 {
        let moved = self.run_uploads().into_iter().chain(self.run_reads()).map(|moved| moved.bytes).sum::<u64>();
        self.own_bytes() + MAX_RUNS_WITH_DATA as u64 * moved
    }

    /// Bytes of device memory that it keeps besides buffers of the user.
    pub(crate) fn own_bytes(&self) -> u64 {
        let own = self.resources.blocks.iter().skip(self.planned.plan.memory.len());
        own.chain(self.staged.blocks()).flatten().map(|block| block.bytes()).sum()
    }

    /// The data that each run brings to the device, if the recording is native: parameters follow the data of writes.
    pub(crate) fn run_uploads(&self) -> Vec<RunTransfer<'_>> {
        let RunKind::Batch { refreshes_params } = self.kind else { return self.ports(&self.planned.recording.inputs) };
        let written = self.staged.writes.iter().map(|block| RunTransfer { block, at: 0, bytes: self.upload_bytes });
        let params = self.placed(None).params().filter(|_| refreshes_params);
        let bytes = u64::from(self.planned.plan.params_bytes);
        written.chain(params.map(|block| RunTransfer { block, at: self.params_start(), bytes })).collect()
    }

    /// The data that each run can take from the device, if the recording is native.
    pub(crate) fn run_reads(&self) -> Vec<RunTransfer<'_>> {
        let read = self.staged.reads.iter().map(|block| RunTransfer { block, at: 0, bytes: block.bytes() });
        read.chain(self.ports(&self.planned.recording.outputs)).collect()
    }

    /// Where the parameters start in the data of a run.
    pub(crate) fn params_start(&self) -> u64 {
        self.upload_bytes.next_multiple_of(8)
    }

    fn ports<'a>(&'a self, ports: &'a Ports) -> Vec<RunTransfer<'a>> {
        let placed = self.placed(None);
        let of = |port: &sortie_plan::Port| RunTransfer {
            block: placed.block_of(port.slot),
            at: port.start,
            bytes: port.bytes,
        };
        ports.iter().filter(|port| port.bytes > 0).map(of).collect()
    }

    /// The plan that runs with these cuts, which come from [`FrozenPlan::wanted`].
    pub(crate) fn planned_of(&self, cuts: &Cuts) -> Arc<CachedPlan> {
        cuts.planned(&self.base).clone()
    }

    /// Whether the device has a recording of it.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// The cuts of an encoded run.
    pub(crate) fn encoded_cuts(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.planned.cuts(costs, limits, &self.resources, rule, false)
    }

    /// The cuts that the device's recording would have if it were made now.
    pub(crate) fn wanted(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> Arc<Cuts> {
        self.base.cuts(costs, limits, &self.resources, rule, true)
    }

    /// Whether the cuts of the device's recording fit the current cost estimates.
    ///
    /// Called before each run. Costs next to nothing while the estimates do not change.
    pub(crate) fn fit(&self, costs: &Costs, limits: &Limits, rule: CutRule) -> CutsFit {
        let CutRule::Budget(_) = rule else { return CutsFit::Good };
        let (runs, version) = (self.runs.fetch_add(1, Ordering::Relaxed), costs.version());
        // Estimates may also drift in steps too small for a new version.
        if !runs.is_power_of_two() && self.compared.load(Ordering::Relaxed) == version {
            return CutsFit::Good;
        }
        let fit = self.fit_to(&self.wanted(costs, limits, rule));
        if fit == CutsFit::Good {
            self.compared.store(version, Ordering::Relaxed);
        }
        fit
    }

    /// Whether the device's recording can be submitted where the policy calls for `wanted`: it has the same cuts, or
    /// both are cuts by one budget and the recording's fit.
    pub(crate) fn serves(&self, wanted: &Arc<Cuts>) -> bool {
        let own = &self.cuts;
        let fits = || own.budget.is_some() && own.budget == wanted.budget && self.fit_to(wanted) == CutsFit::Good;
        Arc::ptr_eq(own, wanted) || own.list == wanted.list || fits()
    }

    fn fit_to(&self, wanted: &Cuts) -> CutsFit {
        CutsFit::of(self.cuts.added(), wanted.added(), self.overran.load(Ordering::Relaxed))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_fit_up_to_a_factor_of_two_and_fewer_than_wanted_only_without_overruns() {
        let fits = |have, want| [CutsFit::of(have, want, false), CutsFit::of(have, want, true)];
        assert_eq!(fits(0, 0), [CutsFit::Good; 2]);
        assert_eq!(fits(6, 3), [CutsFit::Good; 2]);
        assert_eq!(fits(7, 3), [CutsFit::TooMany; 2]);
        assert_eq!(fits(1, 0), [CutsFit::TooMany; 2]);
        assert_eq!(fits(3, 6), [CutsFit::Good, CutsFit::TooFew]);
        assert_eq!(fits(3, 7), [CutsFit::TooFew; 2]);
        assert_eq!(fits(0, 1), [CutsFit::TooFew; 2]);
    }
}
