//! The built-in CPU as a backend.
//!
//! A plan, with the payload of the batch, is already what the host can run: [`Work`] interprets one submission of it. A second list of commands
//! would cost more to write than to run, so there is none, and executing a launch is a matter of a few pointers however long the batch is.
//!
//! Invariant: what runs has the turn of the submit queue, so one submission runs at a time and nothing waits for memory.

use std::{panic::Location, sync::Arc, time::Duration};

use sortie_cpu::{MatmulAlgorithm, native::time_matmul_algorithms};
use sortie_plan::{Caps, Cut, fuse::Program};

use super::{
    CpuCompiler, CpuQueue, CpuReadback, HostMemorySource, generate, host_memory,
    runner::{Held, Sheet, Work},
    workers::Workers,
};
use crate::{
    backend::{Abilities, Backend, Generated, OpenArgs, OpenBackend, ProductLibraries},
    clock::Clock,
    error::{Error, Result},
    finish::PendingReadback,
    kernel::KernelCache,
    launch::{self, Executor, Last, Launch, Leave, RunSource},
    memory::{Block, Pool},
    metrics::{Count, Counters},
    plan::{Frozen, Payload, Planned, Route},
    profile::Tier,
    submit::{Driver, Submitter},
};

/// What the built-in CPU keeps from batch to batch.
pub(crate) struct CpuBackend {
    workers: Arc<Workers>,
    pool: Arc<Pool>,
    submitter: Arc<Submitter<CpuQueue>>,
    counters: Arc<Counters>,
}

impl CpuBackend {
    /// Opens it; `driver` runs what is submitted.
    pub(crate) fn open(workers: Workers, args: &OpenArgs<'_>, driver: Box<dyn Driver>) -> Result<OpenBackend> {
        let OpenArgs { info, options, counters, .. } = *args;
        let source = Arc::new(HostMemorySource);
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
        let kernels = Arc::new(KernelCache::new(args.id, info.limits, Arc::new(compiler), counters.clone()));
        let backend = Self { workers: Arc::new(workers), pool: pool.clone(), submitter, counters: counters.clone() };
        Ok(OpenBackend { backend: Arc::new(backend), pool, kernels })
    }

    /// Appends the scratch memory of a plan.
    fn place(&self, planned: &Planned, payload: &mut Payload) -> Result<()> {
        for bytes in &planned.plan.scratch {
            let raw = self.pool.take_flushing(*bytes, None, || self.flush())?;
            payload.blocks.push(Some(Block::owned(self.pool.clone(), raw, bytes.next_multiple_of(4))));
        }
        Ok(())
    }

    /// The submissions of a launch.
    fn work(
        &self,
        sheet: Sheet,
        cuts: &[Cut],
        blocks: &[Option<Arc<Block>>],
        leave: Leave<'_, CpuQueue>,
    ) -> Last<CpuQueue> {
        self.counters.bytes_written.add(sheet.bytes_written());
        let returning = sheet.returns().cloned().map(|readback| readback as Arc<dyn PendingReadback>);
        let sheet = Arc::new(sheet);
        let work = |number: usize, cut: &Cut| {
            let part = u32::try_from(number).unwrap_or(u32::MAX);
            Work { sheet: sheet.clone(), cut: *cut, part }
        };
        let (last, before) = cuts.split_last()?;
        before.iter().enumerate().for_each(|(number, cut)| leave(work(number, cut), blocks));
        Some((work(before.len(), last), returning))
    }
}

impl Executor for CpuBackend {
    type Queue = CpuQueue;

    fn submitter(&self) -> &Submitter<CpuQueue> {
        &self.submitter
    }

    /// Takes what the work needs out of a batch's payload, which is left as empty as a new one but for its blocks: those of its slots, then the
    /// scratch memory of the plan.
    fn execute(&self, launch: &mut Launch<'_>, leave: Leave<'_, CpuQueue>) -> Result<Last<CpuQueue>> {
        let (planned, cuts, log) = (launch.planned, &launch.route.cuts, launch.log().cloned());
        if let Some(log) = &log {
            log.timed_by(Tier::Exact);
        }
        match &mut launch.source {
            RunSource::Batch(payload) => {
                self.place(planned, payload)?;
                let returns = (payload.read_bytes > 0).then(Arc::<CpuReadback>::default);
                let sheet = Sheet::new(planned, Held::take(payload), &self.workers, returns, &self.counters, log);
                Ok(self.work(sheet, cuts, &payload.blocks, leave))
            }
            RunSource::Replay(frozen, errand) => {
                let errand = std::mem::take(errand);
                let returns = (!errand.reads.is_empty()).then(|| Arc::new(CpuReadback::new(errand.twice)));
                let held = Held::Frozen((*frozen).clone(), errand);
                let sheet = Sheet::new(&frozen.planned, held, &self.workers, returns, &self.counters, log);
                Ok(self.work(sheet, cuts, &frozen.payload.blocks, leave))
            }
        }
    }

    fn explain(&self, error: Error) -> Error {
        error
    }
}

impl Backend for CpuBackend {
    fn abilities(&self) -> Abilities {
        Abilities {
            native_programs: true,
            divides: false,
            copies_within: true,
            max_groups: u32::MAX,
            fill_pattern_bytes: usize::MAX,
            fill_binding_bytes: u64::MAX,
            fill_hidden_immediates: 0,
        }
    }

    fn generate(&self, program: &Program, caps: &Caps) -> Generated {
        generate(program, caps)
    }

    fn launch(&self, launch: Launch<'_>) -> Result<()> {
        launch::run(self, launch)
    }

    fn freeze(
        &self,
        planned: &Arc<Planned>,
        route: Arc<Route>,
        mut payload: Payload,
        _at: &'static Location<'static>,
    ) -> Result<Frozen> {
        self.place(route.planned(planned), &mut payload)?;
        payload.blocks[planned.plan.memory.len()..].iter().flatten().for_each(|block| block.stale());
        Ok(Frozen::new(planned.clone(), route, payload))
    }

    /// Memory out of the pool has nothing pending on it.
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

    fn libraries(&self) -> Option<&dyn ProductLibraries> {
        Some(self)
    }
}

impl ProductLibraries for CpuBackend {
    fn time_all(&self) -> Vec<(&'static str, Duration)> {
        time_matmul_algorithms(&self.workers.threads).map(|(library, time)| (library.name(), time)).into()
    }

    fn current(&self) -> &'static str {
        self.workers.threads.matmul_algorithm().name()
    }

    fn select(&self, name: &str) {
        if let Some(library) = MatmulAlgorithm::named(name) {
            self.workers.threads.set_matmul_algorithm(library);
        }
    }
}
