//! From a plan to commands. On wgpu: pipelines ready, slots given buffers, bind groups found, one pass per run of dispatches.
//!
//! [`Executor`] is the seam: what runs a plan. Everything that can fail for reasons of its own (memory, pipelines, staging) happens
//! before the first command is encoded. What wgpu still refuses then fails the batch, or, when parts of it have left already, the part in its turn.

mod commands;
#[cfg_attr(any(target_vendor = "apple", target_family = "wasm"), path = "no_direct.rs")]
mod direct;
mod fill;
mod frozen;
mod groups;
mod names;
mod native;
mod open;
mod outline;
mod payload;
mod plans;
mod route;
mod stamps;
#[cfg_attr(any(target_vendor = "apple", target_family = "wasm"), path = "no_vulkan.rs")]
mod vulkan;

use std::{sync::Arc, thread};

use smallvec::SmallVec;
use sortie_plan::{Caps, Part, Recording, fuse::Program};

use self::{
    commands::Encoding,
    fill::FillKernel,
    frozen::Laid,
    plans::{GeneratedKernel, Resolved},
    stamps::Stamps,
    vulkan::Secondary,
};
pub(crate) use self::{
    fill::{FILL_BYTES, PATTERN_WORDS, grid as fill_grid, immediates as fill_immediates},
    frozen::{Errand, Fit, Frozen, Ports},
    groups::GroupCache,
    names::Names,
    outline::Described,
    payload::Payload,
    plans::{PlanCache, Planned},
    route::Route,
};
use crate::{
    backend::{
        cpu,
        generated::Generated,
        wgpu::{compiler::WgpuCompiler, kernel::WgpuKernel},
    },
    cpu::{Cpu, Work},
    device::{DeviceKind, DeviceOptions, Gpu, Shared},
    error::{Error, Result},
    kernel::{GRID_BLOCK, Kernel, grid_block},
    memory::{Block, BufferId, Returning, Staged, Staging, Use},
    metrics::{Count, Counters},
    profile::{Log, Tier},
};

/// What runs plans. One variant per kind of device.
#[derive(Debug)]
pub(crate) enum Executor {
    /// Through wgpu.
    Wgpu(Wgpu),
    /// On the host itself.
    Cpu(Cpu),
}

/// One submission, as what runs it takes it.
#[derive(Debug)]
pub(crate) enum Commands {
    Wgpu(wgpu::CommandBuffer),
    /// What goes before a native replay, the replay itself, what goes after.
    Native(SmallVec<[wgpu::CommandBuffer; 3]>),
    /// A part of a native replay that needs nothing of wgpu's.
    Direct(Arc<Frozen>, usize),
    Cpu(Work),
    /// It could not be encoded, and those before it have left: it fails when its turn comes.
    Refused(Error),
}

/// The last submission of a batch. Those before it have left already.
pub(crate) struct Encoded {
    /// `None`: there is nothing to do.
    pub(crate) commands: Option<Commands>,
    /// What the batch reads back.
    pub(crate) returning: Option<Returning>,
}

/// Takes a submission that is not the last of its batch, as soon as it is encoded.
pub(crate) type Leave<'a> = &'a mut dyn FnMut(Commands, &[Option<Arc<Block>>]);

impl Executor {
    pub(crate) fn wgpu(
        gpu: Gpu,
        compiler: Arc<WgpuCompiler>,
        groups: Arc<GroupCache>,
        staging: Arc<Staging>,
        counters: Arc<Counters>,
    ) -> Self {
        Self::Wgpu(Wgpu {
            gpu,
            plans: PlanCache::new(counters.clone()),
            compiler,
            fill: FillKernel::default(),
            groups,
            staging,
            counters,
        })
    }

    /// The host itself, and how many threads it has.
    pub(crate) fn cpu(options: &DeviceOptions, counters: Arc<Counters>) -> Result<(Self, usize)> {
        let cpu = Cpu::new(options, counters)?;
        let threads = cpu.threads();
        Ok((Self::Cpu(cpu), threads))
    }

    /// The plan of this recording for these capabilities, made if none is known.
    pub(crate) fn plan(&self, shared: &Shared, recording: &Recording, caps: &Caps) -> Result<Arc<Planned>> {
        let plans = match self {
            Self::Wgpu(wgpu) => &wgpu.plans,
            Self::Cpu(cpu) => cpu.plans(),
        };
        plans.get(recording, caps, &|program| self.generate(shared, program, caps))
    }

    /// The kernel of a tensor program.
    fn generate(&self, shared: &Shared, program: &Program, caps: &Caps) -> Result<GeneratedKernel> {
        let generated = match self {
            Self::Wgpu(_) => Generated::Source(program.source(caps)),
            Self::Cpu(_) => cpu::compiler::generate(program, caps),
        };
        Ok(match generated {
            Generated::Source(source) => {
                let kernel = shared.kernels().generated(&source.text)?;
                let wrapped = source.grid.iter().any(|groups| *groups > shared.limits().groups);
                GeneratedKernel { kernel, words: source.words, grid: source.grid, wrapped }
            }
            Generated::Native { compiled, interface, grid } => {
                let kernel = shared.kernels().native(interface, compiled);
                GeneratedKernel { kernel, words: Vec::new(), grid, wrapped: false }
            }
        })
    }

    /// Whether memory is the host's own: then any fill, and any copy within a buffer, is one op.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// The host itself, on the built-in CPU.
    pub(crate) fn as_cpu(&self) -> Option<&Cpu> {
        match self {
            Self::Wgpu(_) => None,
            Self::Cpu(cpu) => Some(cpu),
        }
    }

    /// The built-in kernel that fills memory with a pattern.
    pub(crate) fn fill_kernel(&self, shared: &Arc<Shared>) -> Result<&Kernel> {
        self.as_wgpu().fill.get(shared)
    }

    /// These buffers are going: let go of what binds them.
    pub(crate) fn evict(&self, buffers: &[BufferId]) {
        if let Self::Wgpu(wgpu) = self {
            wgpu.groups.evict(buffers);
        }
    }

    /// Frees what lies idle.
    pub(crate) fn trim(&self) {
        if let Self::Wgpu(wgpu) = self {
            wgpu.staging.trim();
        }
    }

    /// Turns a planned recording into commands, part by part. Places its scratch in `payload.blocks`, which must be kept until they are done.
    pub(crate) fn encode(
        &self,
        shared: &Arc<Shared>,
        planned: &Arc<Planned>,
        parts: &[Part],
        payload: &mut Payload,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let _span = encoding(planned, parts).entered();
        planned.complete(payload);
        if let Some(log) = log {
            self.describe(shared, log, planned, payload);
        }
        match self {
            Self::Wgpu(wgpu) => wgpu.encode(shared, planned, parts, payload, log, leave),
            Self::Cpu(cpu) => cpu.encode(shared, planned, parts, payload, log, leave),
        }
    }

    /// Lets a log know what is going to run.
    fn describe(&self, shared: &Shared, log: &Log, planned: &Arc<Planned>, payload: &Payload) {
        if let Self::Cpu(_) = self {
            log.timed_by(Tier::Exact);
        }
        let described = Described::new(planned, payload, log.zero());
        // A software driver runs one op after the other anyway.
        let side_by_side = shared.kind() != DeviceKind::Software;
        log.planned(&shared.info().to_string(), side_by_side, move || described.outline());
    }

    /// Gives a planned recording all that its runs need, for as long as it is kept. What comes with it must have run before the first of them.
    pub(crate) fn freeze(
        &self,
        shared: &Arc<Shared>,
        planned: &Arc<Planned>,
        route: Arc<Route>,
        mut payload: Payload,
        ports: [Ports; 2],
    ) -> Result<(Frozen, Option<Commands>)> {
        planned.complete(&mut payload);
        ports.iter().try_for_each(|ports| ports.place(shared, &mut payload))?;
        match self {
            Self::Wgpu(wgpu) => wgpu.freeze(shared, planned.clone(), route, payload, ports),
            Self::Cpu(cpu) => Ok((cpu.freeze(shared, planned.clone(), route, payload, ports)?, None)),
        }
    }

    /// Records a native replay anew, cut by a route that it [wants](Frozen::wanted). What comes with it must have run before the first run. `None` where no replay is native.
    pub(crate) fn refreeze(
        &self,
        shared: &Arc<Shared>,
        frozen: &Frozen,
        route: Arc<Route>,
    ) -> Result<Option<(Frozen, Option<Commands>)>> {
        match self {
            Self::Wgpu(wgpu) => wgpu.refreeze(shared, frozen, route),
            Self::Cpu(_) => Ok(None),
        }
    }

    /// Turns one run of a frozen recording into commands, part by part.
    pub(crate) fn replay(
        &self,
        shared: &Arc<Shared>,
        frozen: &Arc<Frozen>,
        parts: &[Part],
        errand: Errand,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let _span = encoding(&frozen.planned, parts).entered();
        if let Some(log) = &errand.log {
            self.describe(shared, log, &frozen.planned, &frozen.payload);
        }
        match self {
            Self::Wgpu(wgpu) => wgpu.replay(shared, frozen, parts, &errand, leave),
            Self::Cpu(cpu) => Ok(cpu.replay(frozen, parts, errand, leave)),
        }
    }

    fn as_wgpu(&self) -> &Wgpu {
        match self {
            Self::Wgpu(wgpu) => wgpu,
            Self::Cpu(_) => unreachable!("the built-in CPU is never asked for wgpu"),
        }
    }
}

/// The span in which a batch or a run is encoded.
fn encoding(planned: &Planned, parts: &[Part]) -> tracing::Span {
    tracing::debug_span!(target: "sortie", "encode", ops = planned.plan.order.len(), submissions = parts.len())
}

/// The wgpu executor: what it keeps from batch to batch.
#[derive(Debug)]
pub(crate) struct Wgpu {
    gpu: Gpu,
    plans: PlanCache,
    compiler: Arc<WgpuCompiler>,
    fill: FillKernel,
    groups: Arc<GroupCache>,
    staging: Arc<Staging>,
    counters: Arc<Counters>,
}

impl Wgpu {
    fn encode(
        &self,
        shared: &Arc<Shared>,
        planned: &Planned,
        parts: &[Part],
        payload: &mut Payload,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        // Taken out, so that another thread running the same plan is not held up: it resolves its own.
        let mut resolved = std::mem::take(&mut *planned.resolved.lock());
        let physical = self.place(shared, planned, payload, &mut resolved)?;
        self.compile(planned, payload)?;
        let params = params(shared, planned, resolved.params)?;
        // Behind the slots: whoever holds the blocks holds it too.
        payload.blocks.extend(params.clone().map(Some));
        let laid = Laid { planned, parts, payload, physical: &physical, params: params.as_deref(), run: None };
        let encoded = self.commands(shared, &laid, &mut resolved, log, leave)?;
        *planned.resolved.lock() = resolved;
        Ok(encoded)
    }

    fn freeze(
        &self,
        shared: &Arc<Shared>,
        base: Arc<Planned>,
        route: Arc<Route>,
        mut payload: Payload,
        ports: [Ports; 2],
    ) -> Result<(Frozen, Option<Commands>)> {
        let planned = route.planned(&base).clone();
        let physical = self.place(shared, &planned, &mut payload, &mut Resolved::default())?;
        physical.iter().for_each(|block| block.stale());
        self.compile(&planned, &payload)?;
        let params = params(shared, &planned, None)?;
        let mut frozen = Frozen::new(base, route, payload, physical, params, ports);
        let known = |block: &Arc<Block>| block.allows(Use::CopyFrom);
        let native = shared.options().native_replay && Secondary::suits(shared, &frozen);
        if !native || !frozen.payload.blocks.iter().flatten().all(known) {
            return Ok((frozen, None));
        }
        // wgpu's own checks of what is somebody else's come first: Vulkan has none.
        let first = self.initialise(&frozen, None).map_err(|error| Block::blame(&frozen.imported, error))?;
        // Whatever else is in the way of it, replays can be encoded.
        frozen.native = Secondary::record(shared, &frozen, None).unwrap_or_else(|error| {
            tracing::debug!(%error, "a replay is not native");
            None
        });
        let native = frozen.native.is_some();
        Ok((frozen, native.then_some(first)))
    }

    fn refreeze(
        &self,
        shared: &Arc<Shared>,
        frozen: &Frozen,
        route: Arc<Route>,
    ) -> Result<Option<(Frozen, Option<Commands>)>> {
        let planned = frozen.planned_of(&route);
        let (mut next, first) = match Arc::ptr_eq(&planned, &frozen.planned) {
            true => (frozen.cut_by(route), None),
            false => {
                let mut payload = Payload::clone(&frozen.payload);
                let physical = self.place(shared, &planned, &mut payload, &mut Resolved::default())?;
                physical.iter().for_each(|block| block.stale());
                self.compile(&planned, &payload)?;
                let params = params(shared, &planned, None)?;
                let next = frozen.planned_by(route, payload, physical, params);
                let first = self.initialise(&next, Some(frozen))?;
                (next, Some(first))
            }
        };
        next.native = Secondary::record(shared, &next, frozen.native.as_ref())?;
        Ok(next.native.is_some().then_some((next, first)))
    }

    fn replay(
        &self,
        shared: &Arc<Shared>,
        frozen: &Arc<Frozen>,
        parts: &[Part],
        errand: &Errand,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        if let (Some(_), Some(log)) = (&frozen.native, &errand.log) {
            log.disturbed("encoding what the device has a recording of, which cannot be timed op by op");
        }
        if let Some(secondary) = frozen.native.as_ref().filter(|_| !errand.encoded && errand.log.is_none()) {
            return self.native(frozen, errand, secondary, leave);
        }
        let mut resolved = std::mem::take(&mut *frozen.resolved.lock());
        let laid = Laid {
            planned: &frozen.planned,
            parts,
            payload: &frozen.payload,
            physical: &frozen.physical,
            params: frozen.params.as_deref(),
            run: Some((frozen, errand)),
        };
        let encoded = self.commands(shared, &laid, &mut resolved, errand.log.as_ref(), leave)?;
        *frozen.resolved.lock() = resolved;
        Ok(encoded)
    }

    /// Encodes what has all its memory. All but the last part leave as soon as they are encoded.
    fn commands(
        &self,
        shared: &Arc<Shared>,
        laid: &Laid<'_>,
        resolved: &mut Resolved,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let kernels = laid.payload.kernels.iter().map(WgpuKernel::of).collect::<Result<SmallVec<[_; 16]>>>()?;
        let clears = laid.planned.plan.clears.iter().any(|clear| !clear.first);
        let fill = if clears { Some(self.fill.get(shared)?) } else { None };
        if let Some(fill) = fill {
            self.compiler.pipeline(fill, false)?;
        }
        let upload = self.upload(laid)?;
        let stamps_start = laid.read_bytes().next_multiple_of(8);
        let room = self.staging.max_bytes().saturating_sub(stamps_start);
        let stamps = |log| Stamps::new(&self.gpu, log, laid.commands(), laid.parts.len(), room);
        let mut stamps = log.map(stamps).transpose()?;
        let read_bytes = match stamps.as_ref().map_or(0, Stamps::bytes) {
            0 => laid.read_bytes(),
            bytes => stamps_start + bytes,
        };
        let mut readback = match read_bytes {
            0 => None,
            bytes => Some(self.staging.readback(bytes)?),
        };
        let encoding = Encoding {
            device: &self.gpu,
            shared,
            laid,
            kernels: &kernels,
            fill: fill.map(WgpuKernel::of).transpose()?,
            upload: upload.as_ref(),
            readback: readback.clone(),
            stamps_start,
            groups: &self.groups,
            counters: &self.counters,
        };
        let mut encoded = Encoded { commands: None, returning: None };
        let outcome = encoding.run(resolved, stamps.as_mut(), |last, encode| {
            let scopes = self.gpu.scopes();
            let encoder = encode();
            if last {
                let staged = |buffer| Returning::Staged(Staged::new(buffer, self.staging.clone(), &encoder));
                encoded.returning = readback.take().map(staged);
                if let Some(buffer) = &upload {
                    self.staging.reclaim(buffer, &encoder);
                }
            }
            let commands = Commands::Wgpu(encoder.finish());
            scopes.pop(|| "a batch".into(), 0)?;
            match last {
                true => encoded.commands = Some(commands),
                false => leave(commands, &laid.payload.blocks),
            }
            Ok(())
        });
        self.groups.settle();
        if let Err(error) = outcome {
            // A group may be what was refused: none of them is to be found again.
            self.groups.evict(&resolved.buffers);
            self.groups.evict(resolved.params.as_slice());
            return Err(error);
        }
        Ok(encoded)
    }

    /// Gives scratch slots their memory, the same as last time where it is idle.
    fn place(
        &self,
        shared: &Arc<Shared>,
        planned: &Planned,
        payload: &mut Payload,
        resolved: &mut Resolved,
    ) -> Result<Vec<Arc<Block>>> {
        let plan = &planned.plan;
        let mut physical = Vec::with_capacity(plan.physical.len());
        for (index, bytes) in plan.physical.iter().enumerate() {
            let raw = shared.take_memory(*bytes, resolved.scratch.get(index).copied())?;
            physical.push(Block::owned(shared.clone(), raw, bytes.next_multiple_of(4)));
        }
        resolved.scratch.clear();
        resolved.scratch.extend(physical.iter().map(|block| block.id()));
        for (slot, placed) in plan.placement.iter().enumerate() {
            if let Some(id) = placed {
                payload.blocks[slot] = Some(physical[id.0 as usize].clone());
            }
        }
        Ok(physical)
    }

    /// One staging buffer with the data of all writes, then all hidden parameters.
    fn upload(&self, laid: &Laid<'_>) -> Result<Option<wgpu::Buffer>> {
        let Laid { planned, payload, .. } = *laid;
        let plan = &planned.plan;
        let writes = payload.uploads.len();
        let (start, data) = (laid.data_start(), laid.data());
        let total =
            if data.is_empty() { writes as u64 + u64::from(plan.params_bytes) } else { start + data.len() as u64 };
        if total == 0 {
            return Ok(None);
        }
        self.counters.bytes_written.add((writes + data.len()) as u64);
        let buffer = self.staging.upload(total, |view| {
            view.slice(..writes).copy_from_slice(&payload.uploads);
            if !data.is_empty() {
                let start = usize::try_from(start).unwrap_or_else(|_| unreachable!("staged, so it fits"));
                view.slice(start..start + data.len()).copy_from_slice(data);
            }
            let ops = planned.recording.ops.iter().zip(&plan.params).filter(|(op, _)| op.params != [0, 0]);
            for (op, [immediates, grid]) in ops {
                if op.params[0] > 0 {
                    let at = writes + *immediates as usize;
                    let data = &payload.immediates[op.data.range()];
                    view.slice(at..at + data.len()).copy_from_slice(data);
                }
                if op.params[1] > 0 {
                    let at = writes + *grid as usize;
                    let share = match op.share.len {
                        0 => [0, op.grid.iter().product()],
                        len => [op.share.start, op.share.start + len],
                    };
                    let block = grid_block(op.grid, share[0], share[1]);
                    view.slice(at..at + GRID_BLOCK as usize).copy_from_slice(&block);
                }
            }
        })?;
        Ok(Some(buffer))
    }

    /// Compiles the variants that are missing, as many at a time as there are cores. Usually there is nothing to do.
    fn compile(&self, planned: &Planned, payload: &Payload) -> Result<()> {
        let mut missing: SmallVec<[_; 4]> = SmallVec::new();
        for (number, wrapped) in &planned.variants {
            let kernel = &payload.kernels[*number as usize];
            if WgpuKernel::of(kernel)?.pipeline(*wrapped).is_none() {
                missing.push((kernel, *wrapped));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        // Reads files: 60 µs.
        let cores = thread::available_parallelism().map_or(1, Into::into);
        missing.chunks(cores).try_for_each(|some| self.compiler.compile_all(some))
    }
}

/// The buffer of hidden parameters, if any op has some.
fn params(shared: &Arc<Shared>, planned: &Planned, preferred: Option<BufferId>) -> Result<Option<Arc<Block>>> {
    match u64::from(planned.plan.params_bytes) {
        0 => Ok(None),
        bytes => {
            Ok(Some(Block::owned(shared.clone(), shared.take_memory(bytes, preferred)?, bytes.next_multiple_of(4))))
        }
    }
}
