//! Native replays on the side of wgpu: the commands before the first run, and those around each run.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    MappedReadback, NativeReplay, RecordingDevice, ReplayRecorder, RunMemory, WgpuBackend, WgpuCommands, WgpuQueue,
    buffer, execute::params, native_replay::NativeCounts,
};
use crate::{
    error::{CallSite, Error, Result},
    finish::Completion,
    launch::{Last, SubmitPart},
    memory::{Block, Usage, index},
    metrics::AtomicCounter,
    plan::{CachedPlan, Cuts, FrozenPlan, GRID_BYTES, PlacedPlan, Resources, RunArgs, StagedMemory},
    submit::{BatchState, ReadySubmission},
};

/// Data of a run beyond this many bytes, in either direction, is not worth a second copy on the device, nor memory that
/// is kept for it.
pub(super) const MAX_RUN_BYTES: u64 = 1 << 20;
/// Most bytes of parameters in a batch that uploads them with each run: those of 16,384 dispatches at the largest
/// alignment.
const MAX_PARAMS_BYTES: u64 = 4 << 20;

/// One run of a native recording.
struct NativeRun<'a> {
    imported: &'a [Arc<Block>],
    /// The blocks that it uses.
    blocks: &'a [Option<Arc<Block>>],
    /// The memory of its data, if it has some.
    memory: Option<Arc<dyn RunMemory>>,
    /// Its data, if wgpu copies it.
    staged: Option<StagedRun<'a>>,
    /// Whether it reads data back.
    reads: bool,
}

/// The data of a run that wgpu copies.
struct StagedRun<'a> {
    placed: PlacedPlan<'a>,
    upload: Option<wgpu::Buffer>,
    readback: Option<wgpu::Buffer>,
}

impl WgpuBackend {
    /// Records a frozen plan for the device, if a recorder supports it.
    pub(super) fn with_native_replay(&self, mut frozen: FrozenPlan, at: CallSite) -> Result<FrozenPlan> {
        let known = |block: &Arc<Block>| block.allows(Usage::CopyFrom);
        let recorder = self.recorder(&frozen).filter(|_| frozen.resources.blocks.iter().flatten().all(known));
        let Some(recorder) = recorder else { return Ok(frozen) };
        frozen.staged = self.staged(&frozen)?;
        // wgpu checks the application's buffers first: the API below it does not.
        let first =
            self.initialise(&frozen, |_, _| false).map_err(|error| Block::blame_import(&frozen.imported, error))?;
        // If recording fails, the replay is encoded instead.
        let native = self.record(recorder, &frozen).unwrap_or_else(|error| {
            tracing::debug!(%error, "a replay is not native");
            None
        });
        if native.is_some() {
            frozen.set_native(native);
            self.run_first(&frozen, WgpuCommands::Encoded(first), at)?;
        }
        Ok(frozen)
    }

    /// Records a native replay again with other cuts. `None` if no recorder supports them.
    pub(super) fn rerecord(&self, frozen: &FrozenPlan, cuts: Arc<Cuts>, at: CallSite) -> Result<Option<FrozenPlan>> {
        let planned = frozen.planned_of(&cuts);
        let (mut next, first) = match Arc::ptr_eq(&planned, &frozen.planned) {
            true => (frozen.cut_by(cuts), None),
            false => {
                let mut resources = Resources::clone(&frozen.resources);
                resources.blocks.truncate(planned.plan.memory.len());
                self.place_for_good(&planned, &mut resources)?;
                let next = frozen.planned_by(cuts, resources);
                let earlier = |slot: usize| frozen.resources.blocks.get(slot).and_then(Option::as_ref);
                let first =
                    self.initialise(&next, |slot, block| earlier(slot).is_some_and(|own| Arc::ptr_eq(own, block)))?;
                (next, Some(first))
            }
        };
        let recorded = self.add_native(&mut next, first.map(WgpuCommands::Encoded), at)?;
        Ok(recorded.then_some(next))
    }

    /// Records a batch whose buffers wgpu knows, because the same batch was encoded and has run. `None` if no recorder
    /// supports it.
    pub(super) fn record_for_resubmission(
        &self,
        planned: &Arc<CachedPlan>,
        mut cuts: Arc<Cuts>,
        mut resources: Resources,
        refreshes_params: bool,
        at: CallSite,
    ) -> Result<Option<FrozenPlan>> {
        let mut planned = cuts.planned(planned).clone();
        if refreshes_params {
            let moved =
                planned.with_immediates_in_memory(self.fill.interface().immediates.as_ref().map_or(0, |own| own.size));
            let added = moved.plan.steps.len() > planned.plan.steps.len();
            (planned, cuts) = (Arc::new(moved), Arc::new(cuts.with_first_step(added)));
        }
        let data = resources.read_bytes.max(resources.uploads.len() as u64);
        if data > MAX_RUN_BYTES || u64::from(planned.plan.params_bytes) > MAX_PARAMS_BYTES {
            return Ok(None);
        }
        planned.complete(&mut resources);
        self.place_for_good(&planned, &mut resources)?;
        let slots = planned.plan.memory.len();
        let mut frozen = FrozenPlan::new(planned, cuts, resources).of_batch(refreshes_params);
        if self.recorder(&frozen).is_none() {
            return Ok(None);
        }
        frozen.staged = self.staged(&frozen)?;
        let first = self.initialise(&frozen, |slot, _| slot < slots)?;
        let recorded = self.add_native(&mut frozen, Some(WgpuCommands::Preparation(first)), at)?;
        Ok(recorded.then(|| frozen.without_buffers()))
    }

    /// Records a plan for the device, and runs `first`. False if no recorder supports the plan.
    fn add_native(&self, frozen: &mut FrozenPlan, first: Option<WgpuCommands>, at: CallSite) -> Result<bool> {
        let Some(recorder) = self.recorder(frozen) else { return Ok(false) };
        frozen.set_native(self.record(recorder, frozen)?);
        if let Some(first) = first.filter(|_| frozen.is_native()) {
            self.run_first(frozen, first, at)?;
        }
        Ok(frozen.is_native())
    }

    /// Memory for the data of writes and reads in a native recording, and for its indirect grids.
    fn staged(&self, frozen: &FrozenPlan) -> Result<StagedMemory> {
        let plan = &frozen.planned.plan;
        let take = |needed: bool, bytes: u64| -> Result<Option<Arc<Block>>> {
            if !needed || bytes == 0 {
                return Ok(None);
            }
            let raw = self.pool.take_flushing(bytes, None, || self.submitter.flush())?;
            let block = Block::owned(self.pool.clone(), raw, bytes.next_multiple_of(4));
            block.mark_used();
            Ok(Some(block))
        };
        let resources = &frozen.resources;
        let grids = frozen.planned.indirect_counts().count() as u64;
        Ok(StagedMemory {
            grids: take(true, grids * GRID_BYTES)?,
            writes: take(!plan.writes.is_empty(), resources.uploads.len() as u64)?,
            reads: take(!plan.reads.is_empty(), resources.read_bytes)?,
        })
    }

    /// The first recorder that supports the recording.
    fn recorder(&self, frozen: &FrozenPlan) -> Option<&dyn ReplayRecorder> {
        self.recorders.iter().find(|recorder| recorder.supports(&self.gpu, frozen)).map(|recorder| &**recorder)
    }

    fn record(&self, recorder: &dyn ReplayRecorder, frozen: &FrozenPlan) -> Result<Option<Arc<dyn NativeReplay>>> {
        let on = RecordingDevice {
            gpu: &self.gpu,
            limits: &self.limits,
            compiler: &self.compiler,
            kernels: &self.kernels,
            fill: &self.fill,
            first_buffer: &self.first_buffer,
            counters: &self.counters,
            direct: !self.gpu.is_borrowed && self.submitter.device.has_timeline(),
        };
        recorder.record(&on, frozen)
    }

    /// Runs the commands that must come before the first run of a native replay.
    fn run_first(&self, frozen: &FrozenPlan, commands: WgpuCommands, at: CallSite) -> Result<()> {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        let mut hold = BatchState::new(completion, Arc::new([]), at);
        hold.pin(frozen.resources.blocks.clone());
        self.submitter.run(ReadySubmission::whole(commands, hold))
    }

    /// Initializes all memory of a native replay in wgpu's view: wgpu does not see the replay's writes, and would zero
    /// the memory later. Also fills the hidden parameters and the data of writes, as they are in the recording. Skips
    /// memory that wgpu `knows` already, by its number: runs may be using it.
    pub(super) fn initialise(
        &self,
        frozen: &FrozenPlan,
        knows: impl Fn(usize, &Arc<Block>) -> bool,
    ) -> Result<wgpu::CommandBuffer> {
        /// Bytes copied at a time. The copies are discarded.
        const CHUNK: u64 = 4 << 20;
        self.check_imported(&frozen.imported)?;
        let placed = frozen.placed(None);
        let upload = self.upload(&placed)?;
        let scopes = self.gpu.scopes();
        let mut encoder = self.gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") });
        let ports = frozen.planned.recording.inputs.iter().chain(frozen.planned.recording.outputs.iter());
        let ports: SmallVec<[u32; 16]> = ports.map(|port| port.slot.0).collect();
        let slots = frozen.planned.plan.memory.len();
        let nowhere = self.gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie"),
            size: CHUNK,
            usage: wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        for (slot, block) in (0_u32..).zip(&frozen.resources.blocks) {
            let Some(block) = block else { continue };
            if knows(slot as usize, block) {
                continue;
            }
            if ports.contains(&slot) || slot as usize >= slots {
                encoder.clear_buffer(buffer(block)?, 0, None);
                continue;
            }
            // Reading keeps the contents: wgpu zeroes memory that was never written before it is first read.
            for start in (0..block.bytes()).step_by(CHUNK as usize) {
                let bytes = CHUNK.min(block.bytes() - start);
                encoder.copy_buffer_to_buffer(buffer(block)?, start, &nowhere, 0, bytes);
            }
        }
        for written in [&frozen.staged.reads, &frozen.staged.grids].into_iter().flatten() {
            encoder.clear_buffer(buffer(written)?, 0, None);
        }
        if let Some(upload) = &upload {
            let start = frozen.resources.uploads.len() as u64;
            if let Some(writes) = &frozen.staged.writes {
                encoder.copy_buffer_to_buffer(upload, 0, buffer(writes)?, 0, start);
            }
            if let Some(params) = placed.params() {
                let bytes = u64::from(frozen.planned.plan.params_bytes);
                encoder.copy_buffer_to_buffer(upload, start, buffer(params)?, 0, bytes);
            }
        }
        if let Some(upload) = &upload {
            self.staging.reclaim(upload, &encoder);
        }
        let commands = encoder.finish();
        scopes.pop(|| "a replay".into(), 0)?;
        Ok(commands)
    }

    /// One run of a native replay. Costs the same however many ops the recording has.
    pub(super) fn native(
        &self,
        frozen: &FrozenPlan,
        run_args: &RunArgs,
        native: &Arc<dyn NativeReplay>,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Result<Last<WgpuQueue>> {
        let placed = frozen.placed(Some(run_args));
        let has_data = !run_args.data.is_empty() || !run_args.reads.is_empty();
        let small =
            run_args.data.len() as u64 <= MAX_RUN_BYTES && frozen.planned.recording.outputs.bytes() <= MAX_RUN_BYTES;
        let memory = match has_data && small {
            true => {
                let fill = &mut |view: &mut [u8]| view[..run_args.data.len()].copy_from_slice(&run_args.data);
                // Where memory is short, wgpu copies the data.
                native.clone().run_memory(fill).unwrap_or_default()
            }
            false => None,
        };
        let staged = match memory.is_none() && has_data {
            true => Some(self.stage(placed)?),
            false => None,
        };
        self.counters.bytes_written.add(run_args.data.len() as u64);
        self.counters.bytes_read.add(placed.outputs().map(|port| port.bytes).sum());
        self.counters.transfers.add((placed.inputs().count() + run_args.reads.len()) as u64);
        let (imported, blocks, reads) = (&frozen.imported, &frozen.resources.blocks, !run_args.reads.is_empty());
        let run = NativeRun { imported, blocks, memory, staged, reads };
        let ran = self.run_native(frozen, native, run, submit_part)?;
        if ran.is_some() {
            self.counters.native_runs.add(1);
        }
        Ok(ran)
    }

    /// Staging buffers for the data of a run that has no memory of its own.
    fn stage<'a>(&self, placed: PlacedPlan<'a>) -> Result<StagedRun<'a>> {
        let upload = match placed.data().len() as u64 {
            0 => None,
            bytes => Some(self.staging.upload(bytes, |view| view.copy_from_slice(placed.data()))?),
        };
        let readback = match placed.read_bytes() {
            0 => None,
            bytes => Some(self.staging.readback(bytes)?),
        };
        Ok(StagedRun { placed, upload, readback })
    }

    /// Submits the device's own recording of a batch. `None` if all memory for the data of its runs is in use.
    pub(super) fn resubmit(
        &self,
        frozen: &FrozenPlan,
        resources: &Resources,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Result<Last<WgpuQueue>> {
        let Some(native) = frozen.native_replay() else { return Ok(None) };
        let uploads = &resources.uploads;
        let has_data = !uploads.is_empty() || resources.read_bytes > 0 || frozen.refreshes_params();
        let mut memory = None;
        if has_data {
            let filled = native.clone().run_memory(&mut |view| {
                view[..uploads.len()].copy_from_slice(uploads);
                if frozen.refreshes_params() {
                    let view = &mut view[index(frozen.params_start())..];
                    params(&frozen.planned, &resources.immediates, |at, bytes| {
                        view[at..at + bytes.len()].copy_from_slice(bytes);
                    });
                }
            });
            // Where memory is short, a run is encoded.
            let Ok(Some(filled)) = filled else {
                self.counters.resubmit_misses_unsupported.add(1);
                return Ok(None);
            };
            memory = Some(filled);
        }
        self.counters.bytes_written.add(uploads.len() as u64);
        self.counters.bytes_read.add(resources.read_bytes);
        self.counters.batches_resubmitted.add(1);
        let imported: SmallVec<[_; 4]> =
            resources.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        let (blocks, reads) = (&resources.blocks, resources.read_bytes > 0);
        let run = NativeRun { imported: &imported, blocks, memory, staged: None, reads };
        self.run_native(frozen, native, run, submit_part)
    }

    /// One run of a native recording.
    fn run_native(
        &self,
        frozen: &FrozenPlan,
        native: &Arc<dyn NativeReplay>,
        run: NativeRun<'_>,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Result<Last<WgpuQueue>> {
        let NativeRun { imported, blocks, memory, staged, reads } = run;
        let direct = native.is_direct() && imported.is_empty() && staged.is_none();
        if !direct {
            self.check_imported(imported)?;
        }
        let Some(last) = frozen.cuts().len().checked_sub(1) else { return Ok(None) };
        let mut pending = memory.clone().filter(|_| reads).map(RunMemory::pending);
        let mut commands = |part: usize| -> Result<WgpuCommands> {
            if direct {
                return Ok(WgpuCommands::Direct(native.clone(), part, memory.clone()));
            }
            let scopes = self.gpu.scopes();
            let encoder = || self.gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") });
            let mut commands = SmallVec::new();
            let uploads = staged.as_ref().is_some_and(|staged| staged.upload.is_some());
            if part == 0 && (uploads || !imported.is_empty()) {
                let mut before = encoder();
                name_buffers(&mut before, imported)?;
                if let Some(StagedRun { placed, upload: Some(upload), .. }) = &staged {
                    for port in placed.inputs() {
                        let to = buffer(placed.block_of(port.slot))?;
                        before.copy_buffer_to_buffer(upload, port.start, to, 0, port.bytes);
                    }
                    self.staging.reclaim(upload, &before);
                }
                commands.push(before.finish());
            }
            let mut middle = encoder();
            native.execute(part, memory.as_deref(), &mut middle)?;
            commands.push(middle.finish());
            if let Some(StagedRun { placed, readback: Some(readback), .. }) = staged.as_ref().filter(|_| part == last) {
                let mut after = encoder();
                for port in placed.outputs() {
                    let from = buffer(placed.block_of(port.slot))?;
                    after.copy_buffer_to_buffer(from, 0, readback, port.start, port.bytes);
                }
                let readback = MappedReadback::new(readback.clone(), self.staging.clone(), &after);
                pending = Some(Arc::new(readback));
                commands.push(after.finish());
            }
            scopes.pop(|| "a run".into(), 0)?;
            Ok(WgpuCommands::Native(commands, memory.clone()))
        };
        for part in 0..last {
            submit_part(commands(part)?, blocks);
        }
        let commands = commands(last)?;
        let NativeCounts { dispatches, transfers } = native.counts();
        self.counters.dispatches.add(dispatches);
        self.counters.transfers.add(transfers);
        Ok(Some((commands, pending)))
    }

    /// The API below wgpu must not get destroyed buffers. The caller blames the imported ones.
    fn check_imported(&self, imported: &[Arc<Block>]) -> Result<()> {
        let destroyed = |block: &Arc<Block>| self.recorders.iter().any(|recorder| recorder.is_destroyed(block));
        match imported.iter().any(destroyed) {
            true => Err(Error::internal("a native replay")),
            false => Ok(()),
        }
    }
}

/// Names imported buffers to wgpu: their owner may have destroyed them, and wgpu then refuses the submission.
fn name_buffers(encoder: &mut wgpu::CommandEncoder, imported: &[Arc<Block>]) -> Result<()> {
    let state = wgpu::BufferUses::STORAGE_READ_WRITE;
    let named = imported.iter().map(|block| Ok(wgpu::BufferTransition { buffer: buffer(block)?, state }));
    let named = named.collect::<Result<SmallVec<[_; 8]>>>()?;
    encoder.transition_resources(named.into_iter(), std::iter::empty());
    Ok(())
}
