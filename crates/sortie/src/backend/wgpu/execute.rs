//! Executes launches: gives slots buffers, compiles pipelines, then encodes commands, submission by submission.
//!
//! The encoders are ours, or one of the application ([`Batch::encode`](crate::Batch::encode)).
//!
//! Invariant: everything that can fail by itself (memory, pipelines, staging) happens before the first command is
//! encoded. If wgpu refuses something after that, the batch fails. If submissions of it are already queued, the submission
//! fails in its turn.

use std::{sync::Arc, thread};

use smallvec::SmallVec;
use sortie_plan::{GRID_BLOCK, ParamBlock, grid_block};

use super::{
    MappedReadback, WgpuBackend, WgpuCommands, WgpuKernel, WgpuQueue, bind_groups::BoundGroups, buffer,
    encoder::PlanEncoder, fill, timestamps::TimestampWriter,
};
use crate::{
    error::{Error, Result},
    finish::PendingReadback,
    launch::{Executor, Last, Launch, RunSource, SubmitPart},
    memory::Block,
    metrics::AtomicCounter,
    plan::{CachedPlan, Cuts, FrozenPlan, PlacedPlan, Resources, RunArgs},
    profile::Log,
    submit::Submitter,
};

const DESCRIPTOR: wgpu::CommandEncoderDescriptor<'_> = wgpu::CommandEncoderDescriptor { label: Some("sortie") };

/// Where a plan is encoded.
pub(super) enum Target<'a> {
    /// One encoder of ours per submission. All commands but the last are passed on at once.
    Submissions(SubmitPart<'a, WgpuQueue>),
    /// The application's encoder. The plan is not cut.
    Encoder(&'a mut wgpu::CommandEncoder),
}

/// The last part of an encoded plan.
pub(super) struct Encoded {
    /// `None` if they are in the application's encoder.
    commands: Option<WgpuCommands>,
    pub(super) readback: Option<Arc<dyn PendingReadback>>,
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

impl WgpuBackend {
    pub(super) fn encode_batch(
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
            let raw = self.pool.take_flushing(bytes, preferred, || self.submitter.flush())?;
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
                self.encode_batch(planned, cuts, resources, log.as_ref(), Target::Submissions(submit_part)).map(last)
            }
            RunSource::Replay(frozen, run_args) => self.replay(frozen, cuts, run_args, submit_part),
        }
    }

    fn explain(&self, error: Error) -> Error {
        self.lost.explain(&self.gpu, error)
    }
}
