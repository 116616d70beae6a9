//! Native replays on the side of wgpu: the commands before the first run, and those around each run.

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;
use sortie_plan::Port;

use super::{
    MappedReadback, NativeReplay, RecordingDevice, ReplayRecorder, WgpuCommands, WgpuQueue, backend::WgpuBackend,
    buffer, native_replay::NativeCounts,
};
use crate::{
    error::{Error, Result},
    finish::{Completion, PendingReadback},
    launch::{Last, SubmitPart},
    memory::{Block, Usage},
    metrics::AtomicCounter,
    plan::{Cuts, FrozenPlan, Resources, RunArgs},
    submit::{BatchState, ReadySubmission},
};

impl WgpuBackend {
    /// Records a frozen plan for the device, if a recorder supports it.
    pub(super) fn with_native_replay(
        &self,
        mut frozen: FrozenPlan,
        at: &'static Location<'static>,
    ) -> Result<FrozenPlan> {
        let known = |block: &Arc<Block>| block.allows(Usage::CopyFrom);
        let recorder = self.recorder(&frozen).filter(|_| frozen.resources.blocks.iter().flatten().all(known));
        let Some(recorder) = recorder else { return Ok(frozen) };
        // wgpu checks the application's buffers first: the API below it does not.
        let first = self.initialise(&frozen, None).map_err(|error| Block::blame_import(&frozen.imported, error))?;
        // If recording fails, the replay is encoded instead.
        let native = self.record(recorder, &frozen, None).unwrap_or_else(|error| {
            tracing::debug!(%error, "a replay is not native");
            None
        });
        if native.is_some() {
            frozen.set_native(native);
            self.run_first(&frozen, first, at)?;
        }
        Ok(frozen)
    }

    /// Records a native replay again with other cuts. `None` if no recorder supports them.
    pub(super) fn rerecord(
        &self,
        frozen: &FrozenPlan,
        cuts: Arc<Cuts>,
        at: &'static Location<'static>,
    ) -> Result<Option<FrozenPlan>> {
        let planned = frozen.planned_of(&cuts);
        let (mut next, first) = match Arc::ptr_eq(&planned, &frozen.planned) {
            true => (frozen.cut_by(cuts), None),
            false => {
                let mut resources = Resources::clone(&frozen.resources);
                resources.blocks.truncate(planned.plan.memory.len());
                self.place_for_good(&planned, &mut resources)?;
                let next = frozen.planned_by(cuts, resources);
                let first = self.initialise(&next, Some(frozen))?;
                (next, Some(first))
            }
        };
        let Some(recorder) = self.recorder(&next) else { return Ok(None) };
        let native = self.record(recorder, &next, frozen.native_replay().map(|native| &**native))?;
        if native.is_none() {
            return Ok(None);
        }
        next.set_native(native);
        if let Some(first) = first {
            self.run_first(&next, first, at)?;
        }
        Ok(Some(next))
    }

    /// The first recorder that supports the recording.
    fn recorder(&self, frozen: &FrozenPlan) -> Option<&dyn ReplayRecorder> {
        self.recorders.iter().find(|recorder| recorder.supports(&self.gpu, frozen)).map(|recorder| &**recorder)
    }

    fn record(
        &self,
        recorder: &dyn ReplayRecorder,
        frozen: &FrozenPlan,
        earlier: Option<&dyn NativeReplay>,
    ) -> Result<Option<Arc<dyn NativeReplay>>> {
        let on = RecordingDevice {
            gpu: &self.gpu,
            limits: &self.limits,
            compiler: &self.compiler,
            fill: &self.fill,
            first_buffer: &self.first_buffer,
            direct: !self.gpu.is_borrowed() && self.submitter.device.has_timeline(),
        };
        recorder.record(&on, frozen, earlier)
    }

    /// Runs the commands that must come before the first run of a native replay.
    fn run_first(&self, frozen: &FrozenPlan, commands: WgpuCommands, at: &'static Location<'static>) -> Result<()> {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        let mut hold = BatchState::new(completion, Arc::new([]), at);
        hold.pin(frozen.resources.blocks.clone());
        self.submitter.run(ReadySubmission::whole(commands, hold))
    }

    /// Initializes all memory of a native replay in wgpu's view: wgpu does not see the replay's writes, and would zero
    /// the memory later. Also fills the hidden parameters, which no run changes. Skips memory of an `earlier`
    /// recording, which runs may be using.
    pub(super) fn initialise(&self, frozen: &FrozenPlan, earlier: Option<&FrozenPlan>) -> Result<WgpuCommands> {
        /// Bytes copied at a time. The copies are discarded.
        const CHUNK: u64 = 4 << 20;
        self.check_imported(frozen)?;
        let placed = frozen.placed(None);
        let upload = self.upload(&placed)?;
        let scopes = self.gpu.scopes();
        let mut encoder = self.gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") });
        let ports = frozen.inputs().iter().chain(frozen.outputs().iter());
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
            let known = earlier.and_then(|earlier| earlier.resources.blocks.get(slot as usize)?.as_ref());
            if known.is_some_and(|known| Arc::ptr_eq(known, block)) {
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
        if let (Some(params), Some(upload)) = (placed.params(), &upload) {
            let start = frozen.resources.uploads.len() as u64;
            let bytes = u64::from(frozen.planned.plan.params_bytes);
            encoder.copy_buffer_to_buffer(upload, start, buffer(params)?, 0, bytes);
        }
        if let Some(upload) = &upload {
            self.staging.reclaim(upload, &encoder);
        }
        let commands = encoder.finish();
        scopes.pop(|| "a replay".into(), 0)?;
        Ok(WgpuCommands::Encoded(commands))
    }

    /// One run of a native replay. Costs the same however many ops the recording has.
    pub(super) fn native(
        &self,
        frozen: &FrozenPlan,
        run_args: &RunArgs,
        native: &Arc<dyn NativeReplay>,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Result<Last<WgpuQueue>> {
        if run_args.data.is_empty() && run_args.reads.is_empty() && native.is_direct() {
            return Ok(self.direct(frozen, native, submit_part));
        }
        let placed = frozen.placed(Some(run_args));
        self.check_imported(frozen)?;
        let upload = match run_args.data.len() as u64 {
            0 => None,
            bytes => Some(self.staging.upload(bytes, |view| view.copy_from_slice(&run_args.data))?),
        };
        self.counters.bytes_written.add(run_args.data.len() as u64);
        let readback = match placed.read_bytes() {
            0 => None,
            bytes => Some(self.staging.readback(bytes)?),
        };
        let memory = |port: &Port| buffer(placed.block_of(port.slot));
        let scopes = self.gpu.scopes();
        let encoder = || self.gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") });
        let NativeCounts { dispatches, mut transfers } = native.counts();
        let (mut commands, mut returning) = (SmallVec::new(), None::<Arc<dyn PendingReadback>>);
        if upload.is_some() || !frozen.imported.is_empty() {
            let mut before = encoder();
            // Their owner may have destroyed them; wgpu then refuses the submission.
            let state = wgpu::BufferUses::STORAGE_READ_WRITE;
            let named =
                frozen.imported.iter().map(|block| Ok(wgpu::BufferTransition { buffer: buffer(block)?, state }));
            let named = named.collect::<Result<SmallVec<[_; 8]>>>()?;
            before.transition_resources(named.into_iter(), std::iter::empty());
            if let Some(upload) = &upload {
                for port in placed.inputs() {
                    transfers += 1;
                    before.copy_buffer_to_buffer(upload, port.start, memory(port)?, 0, port.bytes);
                }
                self.staging.reclaim(upload, &before);
            }
            commands.push(before.finish());
        }
        for part in 0..frozen.cuts().len() {
            if part > 0 {
                let before = WgpuCommands::Native(std::mem::take(&mut commands));
                submit_part(before, &frozen.resources.blocks);
            }
            let mut middle = encoder();
            native.execute(part, &mut middle)?;
            commands.push(middle.finish());
        }
        if let Some(readback) = readback {
            let mut after = encoder();
            for port in placed.outputs() {
                transfers += 1;
                self.counters.bytes_read.add(port.bytes);
                after.copy_buffer_to_buffer(memory(port)?, 0, &readback, port.start, port.bytes);
            }
            returning = Some(Arc::new(MappedReadback::new(readback, self.staging.clone(), &after)));
            commands.push(after.finish());
        }
        scopes.pop(|| "a run".into(), 0)?;
        self.counters.dispatches.add(dispatches);
        self.counters.transfers.add(transfers);
        self.counters.native_runs.add(1);
        Ok(Some((WgpuCommands::Native(commands), returning)))
    }

    /// A run without input data and without reads.
    fn direct(
        &self,
        frozen: &FrozenPlan,
        native: &Arc<dyn NativeReplay>,
        submit_part: SubmitPart<'_, WgpuQueue>,
    ) -> Last<WgpuQueue> {
        let NativeCounts { dispatches, transfers } = native.counts();
        self.counters.dispatches.add(dispatches);
        self.counters.transfers.add(transfers);
        self.counters.native_runs.add(1);
        let commands = |part| WgpuCommands::Direct(native.clone(), part);
        let last = frozen.cuts().len().checked_sub(1)?;
        for part in 0..last {
            submit_part(commands(part), &frozen.resources.blocks);
        }
        Some((commands(last), None))
    }

    /// The API below wgpu must not get destroyed buffers. The caller blames the imported ones.
    pub(super) fn check_imported(&self, frozen: &FrozenPlan) -> Result<()> {
        let destroyed = |block: &Arc<Block>| self.recorders.iter().any(|recorder| recorder.is_destroyed(block));
        match frozen.imported.iter().any(destroyed) {
            true => Err(Error::internal("a native replay")),
            false => Ok(()),
        }
    }
}
