//! The built-in CPU as a backend.
//!
//! The host can interpret a plan directly, together with the [`Resources`] of the batch: [`CpuSubmission`] interprets
//! one submission of it. A second list of commands would cost more to write than to run, so there is none. Executing a
//! launch only moves a few pointers, however long the batch is.
//!
//! Invariant: the running submission has the turn of the submit queue, so one submission runs at a time and nothing
//! waits for memory.

use std::sync::Arc;

use sortie_plan::{Caps, Cut, fuse::Program};

use super::{
    CpuCompiler, CpuQueue, CpuReadback, HostMemorySource, generate, host_memory,
    panels::{PanelLists, PanelStore},
    runner::{CpuBatch, CpuSource, CpuSubmission},
    threads::CpuThreads,
};
use crate::{
    backend::{Abilities, Backend, Generated, OpenArgs, OpenBackend},
    clock::Clock,
    error::{CallSite, Result},
    finish::PendingReadback,
    kernel::KernelCache,
    launch::{self, Executor, Last, Launch, RunSource, SubmitPart},
    memory::{Block, Pool},
    metrics::{AtomicCounter, Counters},
    plan::{CachedPlan, Cuts, FrozenPlan, Resources},
    profile::TimestampTier,
    submit::{Driver, Submitter},
};

/// State of the built-in CPU that lives from batch to batch.
pub(crate) struct CpuBackend {
    pub(super) threads: Arc<CpuThreads>,
    pool: Arc<Pool>,
    pub(super) panels: Arc<PanelStore>,
    submitter: Arc<Submitter<CpuQueue>>,
    pub(super) counters: Arc<Counters>,
}

impl CpuBackend {
    /// Opens it. `driver` runs the submissions.
    pub(crate) fn open(threads: CpuThreads, args: &OpenArgs<'_>, driver: Box<dyn Driver>) -> Result<OpenBackend> {
        let OpenArgs { info, options, counters, .. } = *args;
        let lists = Arc::<PanelLists>::default();
        let source = Arc::new(HostMemorySource(lists.clone()));
        let (limit, budget) = (info.limits.buffer_bytes, options.memory_budget);
        let pool = Arc::new(Pool::new(source, limit, options.pool, budget, counters.clone()));
        let submitter = Submitter::start(
            CpuQueue::new(counters.clone()),
            driver,
            args.policy.in_flight,
            args.lost.clone(),
            counters.clone(),
            (args.costs.clone(), Clock::Wall),
            budget,
        )?;
        let compiler = CpuCompiler { limits: info.limits, portable: options.portable, counters: counters.clone() };
        let kernels = Arc::new(KernelCache::new(args.id, info.limits, Arc::new(compiler), counters.clone(), options));
        let panels = Arc::new(PanelStore { pool: pool.clone(), lists });
        let backend =
            Self { threads: Arc::new(threads), pool: pool.clone(), panels, submitter, counters: counters.clone() };
        Ok(OpenBackend { backend: Arc::new(backend), pool, kernels })
    }

    /// Appends the scratch memory of a plan.
    fn place(&self, planned: &CachedPlan, resources: &mut Resources) -> Result<()> {
        for bytes in &planned.plan.scratch {
            let raw = self.pool.take_flushing(*bytes, None, || self.flush())?;
            resources.blocks.push(Some(Block::owned(self.pool.clone(), raw, bytes.next_multiple_of(4))));
        }
        Ok(())
    }

    /// The submissions of a launch.
    fn work(
        &self,
        batch: CpuBatch,
        cuts: &[Cut],
        blocks: &[Option<Arc<Block>>],
        submit_part: SubmitPart<'_, CpuQueue>,
    ) -> Last<CpuQueue> {
        self.counters.bytes_written.add(batch.bytes_written());
        let returning = batch.returns.clone().map(|readback| readback as Arc<dyn PendingReadback>);
        let batch = Arc::new(batch);
        let work = |number: usize, cut: &Cut| {
            let part = u32::try_from(number).unwrap_or(u32::MAX);
            CpuSubmission { batch: batch.clone(), cut: *cut, part }
        };
        let (last, before) = cuts.split_last()?;
        before.iter().enumerate().for_each(|(number, cut)| submit_part(work(number, cut), blocks));
        Some((work(before.len(), last), returning))
    }
}

impl Executor for CpuBackend {
    type Queue = CpuQueue;

    fn submitter(&self) -> &Submitter<CpuQueue> {
        &self.submitter
    }

    /// Takes the contents of a batch's resources, but leaves their blocks: those of the slots, then the scratch memory
    /// of the plan.
    fn execute(&self, launch: &mut Launch<'_>, submit_part: SubmitPart<'_, CpuQueue>) -> Result<Last<CpuQueue>> {
        let (planned, cuts, log) = (launch.planned, &launch.cuts.list, launch.log().cloned());
        if let Some(log) = &log {
            log.timed_by(TimestampTier::Exact);
        }
        match &mut launch.source {
            RunSource::Batch(resources, _) => {
                self.place(planned, resources)?;
                let returns = (resources.read_bytes > 0).then(Arc::<CpuReadback>::default);
                let batch = CpuBatch::new(planned, CpuSource::take(resources), self, returns, log);
                Ok(self.work(batch, cuts, &resources.blocks, submit_part))
            }
            RunSource::Replay(frozen, run_args) => {
                let run_args = std::mem::take(run_args);
                let returns =
                    (!run_args.reads.is_empty()).then(|| Arc::new(CpuReadback::new(run_args.shared_readback)));
                let source = CpuSource::Replay((*frozen).clone(), run_args);
                let batch = CpuBatch::new(&frozen.planned, source, self, returns, log);
                Ok(self.work(batch, cuts, &frozen.resources.blocks, submit_part))
            }
        }
    }
}

impl Backend for CpuBackend {
    fn abilities(&self) -> Abilities {
        Abilities {
            recorded_run_bytes: 0,
            // Checks watch WGSL, so tensor operations run as the kernels that other devices run.
            native_programs: self.threads.checks.is_none(),
            divides: false,
            copies_within: true,
            max_groups: u32::MAX,
            fill_pattern_bytes: usize::MAX,
            fill_binding_bytes: u64::MAX,
            fill_hidden_immediates: 0,
        }
    }

    fn generate(&self, program: &Program, caps: &Caps) -> Generated {
        if self.threads.checks.is_some() { Generated::Source(program.source(caps)) } else { generate(program) }
    }

    fn launch(&self, launch: Launch<'_>) -> Result<()> {
        launch::run(self, launch)
    }

    fn freeze(
        &self,
        planned: &Arc<CachedPlan>,
        cuts: Arc<Cuts>,
        mut resources: Resources,
        _at: CallSite,
    ) -> Result<FrozenPlan> {
        self.place(cuts.planned(planned), &mut resources)?;
        Ok(FrozenPlan::new(planned.clone(), cuts, resources))
    }

    /// Memory from the pool has no work pending, so it is written directly.
    fn upload(&self, block: &Arc<Block>, data: &[u8]) -> Result<()> {
        host_memory(block).map(|memory| memory.write(0, data))
    }

    fn write(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        self.submitter.store(block, start, data, whole)
    }

    fn zero(&self, block: &Arc<Block>) -> Result<()> {
        host_memory(block).map(|memory| memory.zero(block.bytes()))
    }

    fn flush(&self) {
        self.submitter.flush();
    }

    fn staged_bytes(&self) -> u64 {
        self.submitter.staged_bytes()
    }

    fn close(&self) {
        self.submitter.close();
    }
}
