//! wgpu as a backend: compiles pipelines, gives slots buffers, then encodes commands, submission by submission.
//!
//! The encoders are ours, or one of the application ([`Batch::encode`](crate::Batch::encode)).
//!
//! Everything that can fail by itself (memory, pipelines, staging) happens before the first command is encoded. If wgpu
//! refuses something after that, the batch fails. If submissions of it are already queued, the submission fails in its
//! turn.

use std::{io, path::Path, sync::Arc, thread};

use smallvec::SmallVec;
use sortie_plan::{Caps, GRID_BLOCK, ParamBlock, fuse::Program, grid_block};

use super::{
    BindGroupCache, Gpu, GuestBatches, ImportTable, MappedReadback, PipelineCache, Receipt, ReplayRecorder, Rules,
    Staging, WgpuCommands, WgpuCompiler, WgpuKernel, WgpuMemorySource, WgpuQueue, bind_groups::BoundGroups, buffer,
    encoder::PlanEncoder, fill, replay::MAX_RUN_BYTES, timestamps::TimestampWriter,
};
use crate::{
    backend::{Abilities, Backend, Generated, OpenArgs, OpenBackend},
    clock::Clock,
    error::{CallSite, Error, Result},
    exit::{self, Inside},
    finish::PendingReadback,
    info::{DeviceKind, Limits},
    kernel::{Kernel, KernelCache},
    launch::{self, Executor, Last, Launch, RunSource, SubmitPart},
    lost::Lost,
    memory::{Block, Pool},
    metrics::{AtomicCounter, Counters},
    plan::{CachedPlan, Cuts, FrozenPlan, PlacedPlan, Resources, RunArgs},
    profile::Log,
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
    groups: Arc<BindGroupCache>,
    imports: Arc<ImportTable>,
    pub(super) staging: Arc<Staging>,
    pub(super) submitter: Arc<Submitter<WgpuQueue>>,
    pub(super) lost: Arc<Lost>,
    pub(super) counters: Arc<Counters>,
    /// Recorders of native replays; empty if these are switched off.
    pub(super) recorders: Vec<Box<dyn ReplayRecorder>>,
    /// See [`RecordingDevice::first_buffer`].
    pub(super) first_buffer: wgpu::Buffer,
    /// Batches in encoders of the application.
    guests: Arc<GuestBatches>,
}

const DESCRIPTOR: wgpu::CommandEncoderDescriptor<'_> = wgpu::CommandEncoderDescriptor { label: Some("sortie") };

/// Where a plan is encoded.
enum Target<'a> {
    /// One encoder of ours per submission. All commands but the last are passed on at once.
    Submissions(SubmitPart<'a, WgpuQueue>),
    /// The application's encoder. The plan is not cut.
    Encoder(&'a mut wgpu::CommandEncoder),
}

/// The last part of an encoded plan.
struct Encoded {
    /// `None` if they are in the application's encoder.
    commands: Option<WgpuCommands>,
    readback: Option<Arc<dyn PendingReadback>>,
}

fn last(encoded: Option<Encoded>) -> Last<WgpuQueue> {
    encoded.and_then(|Encoded { commands, readback }| Some((commands?, readback)))
}

/// Calls `put` with the offset and bytes of each hidden parameter block.
pub(super) fn params(planned: &CachedPlan, immediates: &[u8], mut put: impl FnMut(usize, &[u8])) {
    let plan = &planned.plan;
    for block in &plan.params {
        match *block {
            ParamBlock::Immediates { at, bytes } => put(at as usize, &immediates[bytes.range()]),
            ParamBlock::Grid { at, groups, first, end } => {
                let block: [u8; GRID_BLOCK as usize] = grid_block(groups, first, end);
                put(at as usize, &block);
            }
            ParamBlock::Fill { at, fill } => {
                let (to, pattern) = (plan[fill].to, plan[fill].pattern);
                let start = fill::words(to.start % u64::from(planned.caps.params_align));
                let pattern = &immediates[pattern.range()];
                put(at as usize, &fill::immediates(start, fill::words(to.end - to.start), pattern));
            }
        }
    }
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

    fn encode(
        &self,
        planned: &CachedPlan,
        cuts: &Cuts,
        resources: &mut Resources,
        log: Option<&Arc<Log>>,
        target: Target<'_>,
    ) -> Result<Option<Encoded>> {
        let mut bound_groups = planned.state.take::<BoundGroups>();
        let encoded = self.place(planned, resources, &bound_groups).and_then(|()| {
            self.compile(planned, resources)?;
            let placed = PlacedPlan { planned, cuts: &cuts.list, resources, blocks: &resources.blocks, run: None };
            self.commands(&placed, &mut bound_groups, log, target)
        });
        planned.state.put(bound_groups);
        encoded
    }

    fn replay(
        &self,
        frozen: &FrozenPlan,
        cuts: &Cuts,
        run_args: &RunArgs,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Result<Last<WgpuQueue>> {
        if let Some(native) = frozen.native_replay() {
            if let Some(log) = &run_args.log {
                log.add_caveat("encoding what the device has a recording of, which cannot be timed op by op");
            } else if !run_args.encoded {
                return self.native(frozen, run_args, native, submit_part);
            }
        }
        let mut bound_groups = frozen.state.take::<BoundGroups>();
        let placed = PlacedPlan { cuts: &cuts.list, ..frozen.placed(Some(run_args)) };
        let target = Target::Submissions(submit_part);
        let encoded = self.commands(&placed, &mut bound_groups, run_args.log.as_ref(), target);
        frozen.state.put(bound_groups);
        encoded.map(last)
    }

    /// Encodes a plan that has all its memory. All submissions but the last are queued as soon as they are encoded.
    fn commands(
        &self,
        placed: &PlacedPlan<'_>,
        bound_groups: &mut BoundGroups,
        log: Option<&Arc<Log>>,
        mut target: Target<'_>,
    ) -> Result<Option<Encoded>> {
        let mut kernels: SmallVec<[_; 16]> = SmallVec::with_capacity(placed.resources.kernels.len());
        for kernel in &placed.resources.kernels {
            kernels.push(WgpuKernel::of(kernel)?);
        }
        let fill = if placed.plan().uses_fill_kernel() { Some(WgpuKernel::of(&self.fill)?) } else { None };
        let mut buffers: SmallVec<[_; 16]> = SmallVec::with_capacity(placed.blocks.len());
        for block in placed.blocks {
            buffers.push(block.as_deref().map(buffer).transpose()?);
        }
        let upload = self.upload(placed)?;
        self.counters.bytes_written.add((placed.resources.uploads.len() + placed.data().len()) as u64);
        let stamps_start = placed.read_bytes().next_multiple_of(8);
        let room = self.staging.max_bytes.saturating_sub(stamps_start);
        let stamps = |log| TimestampWriter::new(&self.gpu, log, placed.plan().steps.len(), placed.cuts.len(), room);
        let mut stamps = log.map(stamps).transpose()?;
        let read_bytes = match stamps.as_ref().map_or(0, TimestampWriter::bytes) {
            0 => placed.read_bytes(),
            bytes => stamps_start + bytes,
        };
        let mut readback = match read_bytes {
            0 => None,
            bytes => Some(self.staging.readback(bytes)?),
        };
        let encoding = PlanEncoder {
            gpu: &self.gpu,
            timestamp_period: stamps.as_ref().map_or(1.0, |_| self.queue.get_timestamp_period()),
            limits: &self.limits,
            placed,
            buffers: &buffers,
            kernels: &kernels,
            fill,
            upload: upload.as_ref(),
            readback: readback.clone(),
            stamps_start,
            groups: &self.groups,
            counters: &self.counters,
        };
        let mut encoded = None;
        let outcome = encoding.run(bound_groups, stamps.as_mut(), |last, encode| {
            let scopes = self.gpu.scopes();
            let mut own = None;
            let encoder = match &mut target {
                Target::Submissions(_) => own.insert(self.gpu.create_command_encoder(&DESCRIPTOR)),
                Target::Encoder(encoder) => encoder,
            };
            encode(encoder)?;
            let mut returning = None;
            if last {
                let pending = |buffer| MappedReadback::new(buffer, self.staging.clone(), encoder);
                returning = readback.take().map(|buffer| Arc::new(pending(buffer)) as Arc<dyn PendingReadback>);
                if let Some(buffer) = &upload {
                    self.staging.reclaim(buffer, encoder);
                }
            }
            let commands = own.map(|encoder| WgpuCommands::Encoded(encoder.finish()));
            scopes.pop(|| "a batch".into(), 0)?;
            match (commands, &mut target) {
                (Some(commands), Target::Submissions(submit_part)) if !last => submit_part(commands, placed.blocks),
                (commands, _) => encoded = Some(Encoded { commands, readback: returning }),
            }
            Ok(())
        });
        self.groups.evict_pending();
        if let Err(error) = outcome {
            // wgpu may have refused a bind group: drop all of them from the cache.
            self.groups.evict(&bound_groups.buffers);
            return Err(error);
        }
        Ok(encoded)
    }

    /// Appends the memory for scratch and parameters of a plan: the same as last time if it is idle.
    fn place(&self, planned: &CachedPlan, resources: &mut Resources, bound_groups: &BoundGroups) -> Result<()> {
        let (plan, slots) = (&planned.plan, resources.blocks.len());
        let params = Some(u64::from(plan.params_bytes)).filter(|bytes| *bytes > 0);
        for (number, bytes) in plan.scratch.iter().copied().chain(params).enumerate() {
            let preferred = bound_groups.buffers.get(slots + number).copied();
            let raw = self.pool.take_flushing(bytes, preferred, || self.flush())?;
            resources.blocks.push(Some(Block::owned(self.pool.clone(), raw, bytes.next_multiple_of(4))));
        }
        Ok(())
    }

    /// Gives a plan memory that all its runs use, and compiles its kernels.
    pub(super) fn place_for_good(&self, planned: &CachedPlan, resources: &mut Resources) -> Result<()> {
        self.place(planned, resources, &BoundGroups::default())?;
        self.compile(planned, resources)
    }

    /// One staging buffer with the data of all writes, then all hidden parameters, then the data of inputs.
    pub(super) fn upload(&self, placed: &PlacedPlan<'_>) -> Result<Option<wgpu::Buffer>> {
        let (plan, resources) = (placed.plan(), placed.resources);
        let writes = resources.uploads.len();
        let (start, data) = (placed.data_start(), placed.data());
        let total =
            if data.is_empty() { writes as u64 + u64::from(plan.params_bytes) } else { start + data.len() as u64 };
        if total == 0 {
            return Ok(None);
        }
        let buffer = self.staging.upload(total, |view| {
            view.slice(..writes).copy_from_slice(&resources.uploads);
            if !data.is_empty() {
                let start = usize::try_from(start).unwrap_or_else(|_| unreachable!("staged, so it fits"));
                view.slice(start..start + data.len()).copy_from_slice(data);
            }
            params(placed.planned, &resources.immediates, |at, bytes| {
                let at = writes + at;
                view.slice(at..at + bytes.len()).copy_from_slice(bytes);
            });
        })?;
        Ok(Some(buffer))
    }

    /// Compiles the missing pipelines, as many at a time as there are cores. Usually none are missing.
    fn compile(&self, planned: &CachedPlan, resources: &Resources) -> Result<()> {
        let fill = planned.plan.uses_fill_kernel().then_some((&self.fill, false));
        let own =
            planned.plan.pipelines.iter().map(|(kernel, wrapped)| (&resources.kernels[kernel.0 as usize], *wrapped));
        let mut missing: SmallVec<[_; 4]> = SmallVec::new();
        for (kernel, wrapped) in own.chain(fill) {
            if WgpuKernel::of(kernel)?.pipeline(wrapped).is_none() {
                missing.push((kernel, wrapped));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        // Reads files, which takes 60 µs.
        let cores = thread::available_parallelism().map_or(1, Into::into);
        missing.chunks(cores).try_for_each(|some| self.compiler.compile_all(some))
    }
}

impl Executor for WgpuBackend {
    type Queue = WgpuQueue;

    fn submitter(&self) -> &Submitter<WgpuQueue> {
        &self.submitter
    }

    fn execute(&self, launch: &mut Launch<'_>, submit_part: SubmitPart<'_, WgpuQueue>) -> Result<Last<WgpuQueue>> {
        let (planned, cuts, log) = (launch.planned, launch.cuts, launch.log().cloned());
        match &mut launch.source {
            RunSource::Batch(resources, recorded) => {
                if let Some(frozen) = recorded
                    && let Some(last) = self.resubmit(frozen, resources, submit_part)?
                {
                    return Ok(Some(last));
                }
                self.encode(planned, cuts, resources, log.as_ref(), Target::Submissions(submit_part)).map(last)
            }
            RunSource::Replay(frozen, run_args) => self.replay(frozen, cuts, run_args, submit_part),
        }
    }

    fn explain(&self, error: Error) -> Error {
        self.lost.explain(&self.gpu, error)
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
            let encoded = self.encode(planned, cuts, resources, log.as_ref(), Target::Encoder(encoder))?;
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
