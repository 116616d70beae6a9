//! wgpu as a backend: the state of a device, and how it is opened. [`execute`](super::execute) runs launches on it.

use std::{io, path::Path, sync::Arc};

use sortie_plan::{Caps, fuse::Program};

use super::{
    BindGroupCache, Gpu, GuestBatches, ImportTable, PipelineCache, Receipt, ReplayRecorder, Rules, Staging,
    WgpuCompiler, WgpuMemorySource, WgpuQueue,
    execute::{Encoded, Target},
    fill,
    replay::MAX_RUN_BYTES,
};
use crate::{
    backend::{Abilities, Backend, Generated, OpenArgs, OpenBackend},
    clock::Clock,
    error::{CallSite, Error, Result},
    exit::{self, Inside},
    info::{DeviceKind, Limits},
    kernel::{Kernel, KernelCache},
    launch::{self, Executor, Launch, RunSource},
    lost::Lost,
    memory::{Block, Pool},
    metrics::Counters,
    plan::{CachedPlan, Cuts, FrozenPlan, Resources},
    submit::{Submitter, TwoThreads},
};

/// State of a wgpu device that lives from batch to batch.
pub(crate) struct WgpuBackend {
    pub(super) gpu: Gpu,
    pub(super) queue: wgpu::Queue,
    pub(super) limits: Limits,
    pub(super) pool: Arc<Pool>,
    pub(super) compiler: Arc<WgpuCompiler>,
    pub(super) kernels: Arc<KernelCache>,
    /// The kernel that fills memory with a pattern.
    pub(super) fill: Kernel,
    pub(super) groups: Arc<BindGroupCache>,
    pub(super) imports: Arc<ImportTable>,
    pub(super) staging: Arc<Staging>,
    pub(super) submitter: Arc<Submitter<WgpuQueue>>,
    pub(super) lost: Arc<Lost>,
    pub(super) counters: Arc<Counters>,
    /// Recorders of native replays; empty if these are switched off.
    pub(super) recorders: Vec<Box<dyn ReplayRecorder>>,
    /// See [`RecordingDevice::first_buffer`].
    pub(super) first_buffer: wgpu::Buffer,
    /// Batches in encoders of the application.
    pub(super) guests: Arc<GuestBatches>,
}

/// A wgpu device that has been opened.
pub(crate) struct WgpuOpened {
    pub(crate) gpu: Gpu,
    pub(crate) queue: wgpu::Queue,
    /// Features that kernels may use.
    pub(crate) features: wgpu::Features,
    pub(crate) downlevel: wgpu::DownlevelFlags,
    /// Recorders of native replays.
    pub(crate) recorders: Vec<Box<dyn ReplayRecorder>>,
}

impl WgpuBackend {
    pub(crate) fn open(opened: WgpuOpened, args: &OpenArgs<'_>) -> Result<OpenBackend> {
        let WgpuOpened { gpu, queue, features, downlevel, mut recorders } = opened;
        let OpenArgs { info, options, lost, counters, .. } = *args;
        let first_buffer = gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie first"),
            size: 4,
            usage: wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let limits = info.limits;
        let groups = Arc::new(BindGroupCache::new(counters.clone()));
        let imports = Arc::new(ImportTable::new(groups.clone()));
        let source = Arc::new(WgpuMemorySource::new(gpu.clone(), groups.clone()));
        let budget = options.memory_budget;
        let pool = Arc::new(Pool::new(source, limits.buffer_bytes, options.pool, budget, counters.clone()));
        let staging =
            Arc::new(Staging::new(gpu.clone(), lost.clone(), limits.buffer_bytes, options.pool, counters.clone()));
        let software = info.kind == DeviceKind::Software;
        let clock = if software { Clock::Process } else { Clock::Wall };
        let submitter = Submitter::start(
            WgpuQueue::new(gpu.clone(), queue.clone(), lost.clone(), counters.clone(), clock),
            Box::new(TwoThreads),
            args.policy.in_flight,
            lost.clone(),
            counters.clone(),
            (args.costs.clone(), clock),
            budget,
        )?;
        // On a borrowed device the application decides whether to keep compiled pipelines.
        let pipelines =
            if gpu.is_borrowed { None } else { PipelineCache::open(&gpu, &options.cache, counters.clone()) };
        let native_immediates = options.native_immediates && limits.immediate_bytes > 0;
        let rules = Rules { limits, features, downlevel, native_immediates, software, budget: options.compile_budget };
        let compiler = Arc::new(WgpuCompiler::new(gpu.clone(), pipelines, rules, counters.clone()));
        let kernels = Arc::new(KernelCache::new(args.id, limits, compiler.clone(), counters.clone(), options));
        // Compiled before anything is recorded: recording never fails and never touches the device.
        let fill = kernels.generated(fill::SOURCE).inspect_err(|_| submitter.close())?;
        if !options.native_replay {
            recorders.clear();
        }
        let guests = Arc::new(GuestBatches::new(gpu.clone(), lost.clone(), submitter.clone()));
        let backend = Self {
            gpu,
            queue,
            limits,
            pool: pool.clone(),
            compiler,
            kernels: kernels.clone(),
            fill,
            groups,
            imports,
            staging,
            submitter,
            lost: lost.clone(),
            counters: counters.clone(),
            recorders,
            first_buffer,
            guests,
        };
        Ok(OpenBackend { backend: Arc::new(backend), pool, kernels })
    }
}

impl Backend for WgpuBackend {
    fn abilities(&self) -> Abilities {
        Abilities {
            recorded_run_bytes: if self.recorders.is_empty() { 0 } else { MAX_RUN_BYTES },
            native_programs: false,
            divides: true,
            copies_within: false,
            max_groups: self.limits.groups,
            fill_pattern_bytes: 4 * fill::PATTERN_WORDS,
            // The fill kernel counts words in 32 bits.
            fill_binding_bytes: self.limits.binding_bytes.min(4 * u64::from(u32::MAX)),
            fill_hidden_immediates: self.fill.hidden_immediates(),
        }
    }

    fn generate(&self, program: &Program, caps: &Caps) -> Generated {
        Generated::Source(program.source(caps))
    }

    fn launch(&self, launch: Launch<'_>) -> Result<()> {
        launch::run(self, launch)
    }

    fn encode(&self, launch: Launch<'_>, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        self.guests.start()?;
        // The application's submission must come after everything that was submitted to this device before.
        self.submitter.wait_until_submitted();
        let encoded = launch::encode(self, launch, |launch| {
            let (planned, cuts, log) = (launch.planned, launch.cuts, launch.log().cloned());
            let RunSource::Batch(resources, _) = &mut launch.source else { unreachable!("runs are not encoded") };
            let receipt = Receipt::new(&self.staging)?;
            let encoded = self.encode_batch(planned, cuts, resources, log.as_ref(), Target::Encoder(encoder))?;
            Ok(encoded.map(|Encoded { readback, .. }| (receipt.encode(&self.staging, encoder), readback)))
        })?;
        if let Some((submission, receipt)) = encoded {
            self.guests.watch(submission, receipt, encoder);
        }
        Ok(())
    }

    fn freeze(
        &self,
        planned: &Arc<CachedPlan>,
        cuts: Arc<Cuts>,
        mut resources: Resources,
        at: CallSite,
    ) -> Result<FrozenPlan> {
        self.place_for_good(cuts.planned(planned), &mut resources)?;
        self.with_native_replay(FrozenPlan::new(planned.clone(), cuts, resources), at)
    }

    fn record_batch(
        &self,
        planned: &Arc<CachedPlan>,
        cuts: Arc<Cuts>,
        resources: Resources,
        refreshes_params: bool,
        at: CallSite,
    ) -> Result<Option<FrozenPlan>> {
        self.record_for_resubmission(planned, cuts, resources, refreshes_params, at)
    }

    fn refreeze(&self, frozen: &FrozenPlan, cuts: Arc<Cuts>, at: CallSite) -> Result<Option<FrozenPlan>> {
        self.rerecord(frozen, cuts, at)
    }

    fn upload(&self, block: &Arc<Block>, data: &[u8]) -> Result<()> {
        self.upload_block(block, data)
    }

    fn write(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        self.write_block(block, start, data, whole)
    }

    fn zero(&self, block: &Arc<Block>) -> Result<()> {
        self.zero_block(block)
    }

    fn flush(&self) {
        self.submitter.flush();
    }

    fn staged_bytes(&self) -> u64 {
        self.submitter.staged_bytes()
    }

    fn trim(&self) {
        self.staging.trim();
    }

    fn close(&self) {
        self.guests.close();
        self.submitter.close();
    }

    fn explain(&self, error: Error) -> Error {
        Executor::explain(self, error)
    }

    fn probe(&self) {
        self.lost.probe(&self.gpu);
    }

    fn enter(&self) -> Option<Inside> {
        Some(exit::enter())
    }

    fn wgpu_device(&self) -> Option<&wgpu::Device> {
        Some(&self.gpu)
    }

    fn wgpu(&self) -> Option<(&wgpu::Device, &wgpu::Queue)> {
        self.submitter.device.share();
        Some((&self.gpu, &self.queue))
    }

    fn is_borrowed(&self) -> bool {
        self.gpu.is_borrowed
    }

    fn import(&self, buffer: wgpu::Buffer) -> Result<Arc<Block>> {
        // The owner of the buffer may use the queue.
        self.submitter.device.share();
        Ok(self.imports.import(buffer))
    }

    fn cache_file(&self) -> Option<&Path> {
        Some(&self.compiler.cache()?.file.path)
    }

    fn save_cache(&self) -> Option<io::Result<u64>> {
        self.compiler.cache().map(PipelineCache::save)
    }
}
