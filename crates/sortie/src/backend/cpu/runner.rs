//! Runs one submission of a plan on the host.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use smallvec::SmallVec;
use sortie_plan::{Access, Cut, Groups, Lane, Step, StepId};

use super::{
    CpuBackend, CpuKernel, CpuReadback, dispatch::canceled_here, fill::fill, locked_memory::LockedMemory,
    panels::PanelStore, threads::CpuThreads, timer::CpuTimer,
};
use crate::{
    backend::interpret::{Interpreter, interpret},
    error::{Error, Result},
    memory::{Block, MAX_SPARE_BYTES, MAX_SPARE_OPS, Spares, host},
    metrics::{AtomicCounter, Counters},
    plan::{CachedPlan, FrozenPlan, PlacedPlan, Resources, RunArgs},
    profile::Log,
};

/// Workgroups of a dispatch that threads share: of a tensor operation, the least number for which a product does.
const MIN_SHARED_GROUPS: u64 = 1024;

/// One submission of a batch, ready to run.
pub(crate) struct CpuSubmission {
    pub(super) batch: Arc<CpuBatch>,
    pub(super) cut: Cut,
    /// Its index among the submissions of its batch.
    pub(super) part: u32,
}

/// The plan, memory and data that all submissions of a batch share.
pub(super) struct CpuBatch {
    pub(super) planned: Arc<CachedPlan>,
    source: CpuSource,
    pub(super) threads: Arc<CpuThreads>,
    pub(super) panels: Arc<PanelStore>,
    pub(super) returns: Option<Arc<CpuReadback>>,
    counters: Arc<Counters>,
    /// Profile log, if the batch is profiled.
    log: Option<Arc<Log>>,
}

/// The memory and data that a plan refers to.
#[expect(clippy::large_enum_variant, reason = "there is one for each batch, and it is never moved again")]
pub(super) enum CpuSource {
    /// Of a batch. Without its blocks, which its [`BatchState`](crate::submit::BatchState) holds.
    Batch(Resources),
    /// Of one run of a replay.
    Replay(Arc<FrozenPlan>, RunArgs),
}

impl CpuSource {
    /// Takes everything from the resources except the blocks.
    pub(super) fn take(resources: &mut Resources) -> Self {
        let mut taken = SPARE.take();
        std::mem::swap(&mut taken, resources);
        std::mem::swap(&mut taken.blocks, &mut resources.blocks);
        Self::Batch(taken)
    }
}

impl CpuBatch {
    pub(super) fn new(
        planned: &Arc<CachedPlan>,
        source: CpuSource,
        backend: &CpuBackend,
        returns: Option<Arc<CpuReadback>>,
        log: Option<Arc<Log>>,
    ) -> Self {
        let (threads, panels) = (backend.threads.clone(), backend.panels.clone());
        let counters = backend.counters.clone();
        Self { planned: planned.clone(), source, threads, panels, returns, counters, log }
    }

    #[inline]
    pub(super) fn resources(&self) -> &Resources {
        match &self.source {
            CpuSource::Batch(resources) => resources,
            CpuSource::Replay(frozen, _) => &frozen.resources,
        }
    }

    /// The arguments of the run, if it is a run of a replay.
    fn run(&self) -> Option<&RunArgs> {
        match &self.source {
            CpuSource::Batch(_) => None,
            CpuSource::Replay(_, run_args) => Some(run_args),
        }
    }

    pub(super) fn bytes_written(&self) -> u64 {
        (self.resources().uploads.len() + self.run().map_or(0, |run_args| run_args.data.len())) as u64
    }
}

static SPARE: Spares<Resources> = Spares::new();

impl Drop for CpuBatch {
    fn drop(&mut self) {
        let CpuSource::Batch(resources) = &mut self.source else { return };
        let mut resources = std::mem::take(resources);
        // This may drop kernels, so it runs outside the lock.
        resources.clear();
        let bytes = resources.uploads.capacity().max(resources.immediates.capacity());
        if bytes <= MAX_SPARE_BYTES && resources.names.room() <= MAX_SPARE_OPS {
            SPARE.put(resources);
        }
    }
}

impl CpuSubmission {
    /// Runs it until it is done or `canceled` is set: on the calling thread, or on one of the pool if it has several
    /// steps that the threads share, because each of these would enter the pool. `blocks` are those that `execute` left
    /// in the resources.
    pub(crate) fn run(&self, blocks: &[Option<Arc<Block>>], canceled: &AtomicBool) -> Result<()> {
        match self.batch.threads.threads.pool() {
            Some(pool) if self.shares() => pool.install(|| self.run_here(blocks, canceled)),
            _ => self.run_here(blocks, canceled),
        }
    }

    /// Whether threads share at least two of its steps.
    fn shares(&self) -> bool {
        let plan = &self.batch.planned.plan;
        let large = |step: Step| match step {
            Step::Dispatch(id) => match plan[id].groups {
                Groups::Direct(groups) | Groups::Wrapped(groups) => {
                    groups.into_iter().map(u64::from).product::<u64>() >= MIN_SHARED_GROUPS
                }
                Groups::Indirect(_) => false,
            },
            _ => false,
        };
        plan.steps_of(&self.cut).filter(|(_, step)| large(*step)).nth(1).is_some()
    }

    fn run_here(&self, blocks: &[Option<Arc<Block>>], canceled: &AtomicBool) -> Result<()> {
        let batch = &*self.batch;
        let placed = PlacedPlan {
            planned: &batch.planned,
            cuts: std::slice::from_ref(&self.cut),
            resources: batch.resources(),
            blocks,
            run: batch.run(),
        };
        let mut running = Runner {
            batch,
            placed,
            kernels: placed.resources.kernels.iter().map(CpuKernel::of).collect::<Result<_>>()?,
            memory: LockedMemory::new(blocks, &batch.planned.plan.memory)?,
            canceled,
            counts: StepCounts::default(),
            timer: batch.log.as_ref().map(|log| CpuTimer::new(log, self.part, self.cut.ops as usize)),
        };
        let outcome = interpret(&placed, &self.cut, &mut running);
        running.counts.add_to(&batch.counters);
        if let Some(timer) = running.timer {
            timer.file();
        }
        outcome
    }
}

/// The CPU interpreter: runs the steps of a submission.
pub(super) struct Runner<'a> {
    pub(super) batch: &'a CpuBatch,
    pub(super) placed: PlacedPlan<'a>,
    /// By number.
    pub(super) kernels: SmallVec<[&'a CpuKernel; 16]>,
    pub(super) memory: LockedMemory<'a>,
    pub(super) canceled: &'a AtomicBool,
    counts: StepCounts,
    /// Set if the batch is profiled.
    timer: Option<CpuTimer<'a>>,
}

impl Interpreter for Runner<'_> {
    #[inline]
    fn step(&mut self, step: Step) -> Result<()> {
        if self.canceled.load(Ordering::Relaxed) {
            return Err(canceled_here());
        }
        let placed = self.placed;
        let (plan, resources) = (placed.plan(), placed.resources);
        match step {
            // The CPU has no hidden parameters, and steps run in order.
            Step::Params | Step::Barrier(_) => {}
            Step::Dispatch(id) => {
                self.counts.count(Lane::Compute);
                self.dispatch(&plan[id]).map_err(|error| self.attach(plan[id].op.0, error))?;
            }
            Step::Zero(id) => {
                self.counts.count(plan[id].lane);
                self.memory.zero(plan[id].memory, plan[id].bytes);
            }
            Step::Input(id) => {
                self.counts.count(Lane::Transfer);
                let port = id.of(&placed.planned.recording.inputs);
                let data = placed.run.map_or(&[][..], |run| &run.data[crate::memory::index(port.start)..]);
                self.put(&Access::write(port.slot, 0..port.bytes), data);
            }
            Step::Copy(id) => {
                self.counts.count(Lane::Transfer);
                let (from, to) = (self.memory.place(&plan[id].from), self.memory.place(&plan[id].to));
                self.memory.copy(from, to);
            }
            Step::Fill(id) => {
                self.counts.count(plan[id].lane());
                let to = self.memory.place(&plan[id].to);
                fill(self.memory.words(to), &resources.immediates[plan[id].pattern.range()]);
            }
            Step::Write(id) => {
                self.counts.count(Lane::Transfer);
                self.put(&plan[id].to, &resources.uploads[plan[id].data.range()]);
            }
            Step::Read(id) => {
                let read = self.read(&plan[id].from, plan[id].to.start.into());
                read.map_err(|error| self.attach(plan[id].op.0, error))?;
            }
            Step::Output(id) => {
                let port = id.of(&placed.planned.recording.outputs);
                self.read(&Access::read(port.slot, 0..port.bytes), port.start)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn executed(&mut self, step: StepId) {
        if let Some(timer) = &mut self.timer {
            timer.executed(step);
        }
    }
}

impl Runner<'_> {
    /// Overwrites the whole range with the start of `data`.
    fn put(&mut self, to: &Access, data: &[u8]) {
        let to = self.memory.place(to);
        let words: &mut [u8] = bytemuck::cast_slice_mut(self.memory.words(to));
        words.copy_from_slice(&data[..words.len()]);
    }

    /// Copies memory to the readback.
    fn read(&mut self, from: &Access, at: u64) -> Result<()> {
        self.counts.count(Lane::Transfer);
        self.counts.bytes_read += from.end - from.start;
        let from = self.memory.place(from);
        let words = host::copy(self.memory.read(from))?;
        if let Some(returns) = &self.batch.returns {
            returns.push(at, words);
        }
        Ok(())
    }

    /// Adds the op to an error.
    #[cold]
    fn attach(&self, op: u32, error: Error) -> Error {
        self.placed.resources.names.attach(self.placed.planned.origin(op as usize), error)
    }
}

/// Counts the steps of a submission as a wgpu device would.
#[derive(Default)]
struct StepCounts {
    /// A pass would be open on a wgpu device.
    open: bool,
    passes: u64,
    dispatches: u64,
    transfers: u64,
    bytes_read: u64,
}

impl StepCounts {
    #[inline]
    fn count(&mut self, lane: Lane) {
        match lane {
            Lane::Compute => {
                self.passes += u64::from(!self.open);
                self.dispatches += 1;
            }
            Lane::Transfer => self.transfers += 1,
        }
        self.open = lane == Lane::Compute;
    }

    fn add_to(&self, counters: &Counters) {
        counters.passes.add(self.passes);
        counters.dispatches.add(self.dispatches);
        counters.transfers.add(self.transfers);
        counters.bytes_read.add(self.bytes_read);
    }
}
