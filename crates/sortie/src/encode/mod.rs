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
use sortie_plan::{Caps, Cut, GRID_BLOCK, Grid, ParamBlock, Recording, Span, fuse::Program, grid_block};

use self::{
    commands::Encoding,
    fill::FillKernel,
    plans::{GeneratedKernel, Resolved},
    stamps::Stamps,
    vulkan::Secondary,
};
pub(crate) use self::{
    fill::PATTERN_WORDS,
    frozen::{Errand, Fit, Frozen, PlacedPlan},
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
        wgpu::{MappedReadback, Staging, WgpuCommands, WgpuCompiler, WgpuKernel, buffer},
    },
    cpu::{Cpu, Work},
    device::{Gpu, Shared},
    error::{Error, Result},
    finish::PendingReadback,
    info::DeviceKind,
    kernel::Kernel,
    memory::{Block, Use},
    metrics::{Count, Counters},
    options::DeviceOptions,
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
    Wgpu(WgpuCommands),
    Cpu(Work),
}

impl Commands {
    pub(crate) fn into_wgpu(self) -> Result<WgpuCommands> {
        match self {
            Self::Wgpu(commands) => Ok(commands),
            Self::Cpu(_) => Err(Error::internal("commands of another backend; please report it")),
        }
    }

    pub(crate) fn into_cpu(self) -> Result<Work> {
        match self {
            Self::Cpu(work) => Ok(work),
            Self::Wgpu(_) => Err(Error::internal("commands of another backend; please report it")),
        }
    }
}

/// The last submission of a batch. Those before it have left already.
pub(crate) struct Encoded {
    /// `None`: there is nothing to do.
    pub(crate) commands: Option<Commands>,
    /// What the batch reads back.
    pub(crate) returning: Option<Arc<dyn PendingReadback>>,
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
            Self::Cpu(_) => cpu::generate(program, caps),
        };
        Ok(match generated {
            Generated::Source(source) => {
                let kernel = shared.kernels().generated(&source.text)?;
                let groups = source.grid;
                let grid = match groups.iter().any(|side| *side > shared.limits().groups) {
                    true => Grid::Wrapped { groups, share: Span::EMPTY },
                    false => Grid::Direct(groups),
                };
                GeneratedKernel { kernel, words: source.words, grid }
            }
            Generated::Native { compiled, interface, grid } => {
                let kernel = shared.kernels().native(interface, compiled);
                GeneratedKernel { kernel, words: Vec::new(), grid: Grid::Direct(grid) }
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
        cuts: &[Cut],
        payload: &mut Payload,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let _span = encoding(planned, cuts).entered();
        planned.complete(payload);
        if let Some(log) = log {
            self.describe(shared, log, planned, payload);
        }
        match self {
            Self::Wgpu(wgpu) => wgpu.encode(shared, planned, cuts, payload, log, leave),
            Self::Cpu(cpu) => cpu.encode(shared, planned, cuts, payload, log, leave),
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
    ) -> Result<(Frozen, Option<Commands>)> {
        planned.complete(&mut payload);
        for port in planned.recording.inputs.iter().chain(planned.recording.outputs.iter()) {
            let raw = shared.take_memory(port.bytes.max(4), None)?;
            payload.blocks[port.slot.0 as usize] = Some(Block::owned(shared.pool().clone(), raw, port.bytes));
        }
        match self {
            Self::Wgpu(wgpu) => wgpu.freeze(shared, planned.clone(), route, payload),
            Self::Cpu(cpu) => Ok((cpu.freeze(shared, planned.clone(), route, payload)?, None)),
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
        cuts: &[Cut],
        errand: Errand,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let _span = encoding(&frozen.planned, cuts).entered();
        if let Some(log) = &errand.log {
            self.describe(shared, log, &frozen.planned, &frozen.payload);
        }
        match self {
            Self::Wgpu(wgpu) => wgpu.replay(shared, frozen, cuts, &errand, leave),
            Self::Cpu(cpu) => Ok(cpu.replay(frozen, cuts, errand, leave)),
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
fn encoding(planned: &Planned, cuts: &[Cut]) -> tracing::Span {
    tracing::debug_span!(target: "sortie", "encode", ops = planned.recording.ops.len(), submissions = cuts.len())
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
        cuts: &[Cut],
        payload: &mut Payload,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        // Taken out, so that another thread running the same plan is not held up: it resolves its own.
        let mut resolved = std::mem::take(&mut *planned.resolved.lock());
        let encoded = self.place(shared, planned, payload, &mut resolved).and_then(|()| {
            self.compile(shared, planned, payload)?;
            let placed = PlacedPlan { planned, cuts, payload, blocks: &payload.blocks, run: None };
            self.commands(shared, &placed, &mut resolved, log, leave)
        });
        *planned.resolved.lock() = resolved;
        encoded
    }

    fn freeze(
        &self,
        shared: &Arc<Shared>,
        base: Arc<Planned>,
        route: Arc<Route>,
        mut payload: Payload,
    ) -> Result<(Frozen, Option<Commands>)> {
        let planned = route.planned(&base).clone();
        self.place_for_good(shared, &planned, &mut payload)?;
        let mut frozen = Frozen::new(base, route, payload);
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
                payload.blocks.truncate(planned.plan.memory.len());
                self.place_for_good(shared, &planned, &mut payload)?;
                let next = frozen.planned_by(route, payload);
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
        cuts: &[Cut],
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
        let placed = PlacedPlan {
            planned: &frozen.planned,
            cuts,
            payload: &frozen.payload,
            blocks: &frozen.payload.blocks,
            run: Some(errand),
        };
        let encoded = self.commands(shared, &placed, &mut resolved, errand.log.as_ref(), leave);
        *frozen.resolved.lock() = resolved;
        encoded
    }

    /// Encodes what has all its memory. All but the last part leave as soon as they are encoded.
    fn commands(
        &self,
        shared: &Arc<Shared>,
        placed: &PlacedPlan<'_>,
        resolved: &mut Resolved,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        let kernels = placed.payload.kernels.iter().map(WgpuKernel::of).collect::<Result<SmallVec<[_; 16]>>>()?;
        let fill = if placed.plan().uses_fill_kernel() { Some(WgpuKernel::of(self.fill.get(shared)?)?) } else { None };
        let buffers = placed.blocks.iter().map(|block| block.as_deref().map(buffer).transpose());
        let buffers = buffers.collect::<Result<SmallVec<[_; 16]>>>()?;
        let upload = self.upload(placed)?;
        let stamps_start = placed.read_bytes().next_multiple_of(8);
        let room = self.staging.max_bytes().saturating_sub(stamps_start);
        let stamps = |log| Stamps::new(&self.gpu, log, placed.plan().steps.len(), placed.cuts.len(), room);
        let mut stamps = log.map(stamps).transpose()?;
        let read_bytes = match stamps.as_ref().map_or(0, Stamps::bytes) {
            0 => placed.read_bytes(),
            bytes => stamps_start + bytes,
        };
        let mut readback = match read_bytes {
            0 => None,
            bytes => Some(self.staging.readback(bytes)?),
        };
        let encoding = Encoding {
            device: &self.gpu,
            shared,
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
        let mut encoded = Encoded { commands: None, returning: None };
        let outcome = encoding.run(resolved, stamps.as_mut(), |last, encode| {
            let scopes = self.gpu.scopes();
            let encoder = encode()?;
            if last {
                let pending = |buffer| MappedReadback::new(buffer, self.staging.clone(), &encoder);
                encoded.returning = readback.take().map(|buffer| Arc::new(pending(buffer)) as _);
                if let Some(buffer) = &upload {
                    self.staging.reclaim(buffer, &encoder);
                }
            }
            let commands = Commands::Wgpu(WgpuCommands::Encoded(encoder.finish()));
            scopes.pop(|| "a batch".into(), 0)?;
            match last {
                true => encoded.commands = Some(commands),
                false => leave(commands, placed.blocks),
            }
            Ok(())
        });
        self.groups.settle();
        if let Err(error) = outcome {
            // A group may be what was refused: none of them is to be found again.
            self.groups.evict(&resolved.buffers);
            return Err(error);
        }
        Ok(encoded)
    }

    /// Appends the scratch memory of a plan and the memory of its parameters, the same as last time where it is idle.
    fn place(
        &self,
        shared: &Arc<Shared>,
        planned: &Planned,
        payload: &mut Payload,
        resolved: &mut Resolved,
    ) -> Result<()> {
        let (plan, slots) = (&planned.plan, payload.blocks.len());
        let params = Some(u64::from(plan.params_bytes)).filter(|bytes| *bytes > 0);
        for (number, bytes) in plan.scratch.iter().copied().chain(params).enumerate() {
            let preferred = resolved.buffers.get(slots + number).copied();
            let raw = shared.take_memory(bytes, preferred)?;
            payload.blocks.push(Some(Block::owned(shared.pool().clone(), raw, bytes.next_multiple_of(4))));
        }
        Ok(())
    }

    /// Gives a plan memory that all its runs use, and compiles its kernels.
    fn place_for_good(&self, shared: &Arc<Shared>, planned: &Planned, payload: &mut Payload) -> Result<()> {
        self.place(shared, planned, payload, &mut Resolved::default())?;
        let first = planned.plan.memory.len();
        payload.blocks[first..].iter().flatten().for_each(|block| block.stale());
        self.compile(shared, planned, payload)
    }

    /// One staging buffer with the data of all writes, then all hidden parameters, then the data of inputs.
    fn upload(&self, placed: &PlacedPlan<'_>) -> Result<Option<wgpu::Buffer>> {
        let (plan, payload) = (placed.plan(), placed.payload);
        let writes = payload.uploads.len();
        let (start, data) = (placed.data_start(), placed.data());
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
            let mut put = |at: u32, bytes: &[u8]| {
                let at = writes + at as usize;
                view.slice(at..at + bytes.len()).copy_from_slice(bytes);
            };
            for block in &plan.params {
                match *block {
                    ParamBlock::Immediates { at, bytes } => put(at, &payload.immediates[bytes.range()]),
                    ParamBlock::Grid { at, groups, first, end } => {
                        let block: [u8; GRID_BLOCK as usize] = grid_block(groups, first, end);
                        put(at, &block);
                    }
                    ParamBlock::Fill { at, fill } => {
                        let (to, pattern) = (plan[fill].to, plan[fill].pattern);
                        let start = fill::words(to.start % u64::from(placed.planned.caps.params_align));
                        let pattern = &payload.immediates[pattern.range()];
                        put(at, &fill::immediates(start, fill::words(to.end - to.start), pattern));
                    }
                }
            }
        })?;
        Ok(Some(buffer))
    }

    /// Compiles the pipelines that are missing, as many at a time as there are cores. Usually there is nothing to do.
    fn compile(&self, shared: &Shared, planned: &Planned, payload: &Payload) -> Result<()> {
        let fill = if planned.plan.uses_fill_kernel() { Some((self.fill.get(shared)?, false)) } else { None };
        let own =
            planned.plan.pipelines.iter().map(|(kernel, wrapped)| (&payload.kernels[kernel.0 as usize], *wrapped));
        let mut missing: SmallVec<[_; 4]> = SmallVec::new();
        for (kernel, wrapped) in own.chain(fill) {
            if WgpuKernel::of(kernel)?.pipeline(wrapped).is_none() {
                missing.push((kernel, wrapped));
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
