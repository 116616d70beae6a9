//! The Vulkan interpreter: records the steps of a frozen plan into secondary command buffers, one per submission.
//!
//! Writes and reads are copies from and to memory of the recording, wherever they are in the plan. The data gets there
//! before and after the secondaries: see `run_memory`.

use std::sync::Arc;

use ash::vk;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sortie_plan::{Access, BarrierKind, Dispatch, Fill, GRID_BLOCK, Groups, Lane, Step, StepId};

use super::{
    VulkanReplay,
    descriptors::{Descriptors, SlotOffsets},
    gone, indirect,
    pipelines::{IMMEDIATE_STAGES, KnownPipelines, VulkanPipeline},
    raw, refused,
    run_memory::RunCopy,
    spirv_target::SpirvTarget,
    unsuitable,
};
use crate::{
    backend::{
        interpret::{Interpreter, interpret},
        wgpu::{BoundRange, Hidden, RecordingDevice, WgpuKernel, fill},
    },
    error::Result,
    kernel::{Kernel, Variant},
    memory::{Block, BufferId},
    plan::{FrozenPlan, PlacedPlan, RunTransfer},
};

/// A set to bind: its number, the set, dynamic offsets.
pub(super) type Set = (u32, vk::DescriptorSet, SmallVec<[u32; 2]>);

/// Where a dispatch takes its grid from.
#[derive(Clone, Copy)]
pub(super) enum GridSource {
    Direct([u32; 3]),
    /// Three words of this buffer, from this byte on.
    Memory(vk::Buffer, u64),
}

pub(super) struct CommandWriter<'a> {
    pub(super) on: &'a RecordingDevice<'a>,
    pub(super) frozen: &'a FrozenPlan,
    placed: PlacedPlan<'a>,
    target: SpirvTarget,
    pub(super) into: &'a mut VulkanReplay,
    /// The command buffer being recorded.
    pub(super) commands: vk::CommandBuffer,
    /// Pipelines of other recordings.
    known: &'a KnownPipelines,
    buffers: FxHashMap<BufferId, vk::Buffer>,
    pub(super) descriptors: Descriptors,
    /// Indirect grids so far.
    pub(super) grids: u32,
}

impl<'a> CommandWriter<'a> {
    pub(super) fn new(
        on: &'a RecordingDevice<'a>,
        frozen: &'a FrozenPlan,
        target: SpirvTarget,
        known: &'a KnownPipelines,
        into: &'a mut VulkanReplay,
    ) -> Self {
        Self {
            on,
            frozen,
            placed: frozen.placed(None),
            target,
            into,
            commands: vk::CommandBuffer::null(),
            known,
            buffers: FxHashMap::default(),
            descriptors: Descriptors::default(),
            grids: 0,
        }
    }

    /// Gets all buffers from wgpu, which is not possible while one of them is held.
    pub(super) fn find_buffers(&mut self) -> Result<()> {
        for block in self.placed.blocks.iter().chain(self.frozen.staged.blocks()).flatten() {
            match raw(block) {
                buffer if buffer == vk::Buffer::null() => return Err(gone()),
                buffer => self.buffers.insert(block.id(), buffer),
            };
        }
        Ok(())
    }

    /// Compiles all kernels. This is slow and needs no buffers.
    pub(super) fn compile(&mut self) -> Result<()> {
        for (kernel, wrapped) in &self.placed.plan().pipelines {
            self.pipeline(&self.placed.resources.kernels[kernel.0 as usize], *wrapped)?;
        }
        if self.placed.plan().fills.iter().any(|fill| fill.lane() == Lane::Compute) {
            self.pipeline(self.on.fill, false)?;
        }
        if self.placed.plan().has_indirect() {
            self.variant(&self.grid_check()?, indirect::VARIANT)?;
        }
        Ok(())
    }

    /// Records all submissions. Returns the copies that bring data before the first one, and take data after the last.
    pub(super) fn write(mut self) -> Result<(Vec<RunCopy>, Vec<RunCopy>)> {
        let placed = self.placed;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.into.pool)
            .level(vk::CommandBufferLevel::SECONDARY)
            .command_buffer_count(u32::try_from(placed.cuts.len()).unwrap_or(u32::MAX));
        let inheritance = vk::CommandBufferInheritanceInfo::default();
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .inheritance_info(&inheritance);
        // SAFETY: the pool belongs to this device, and nothing else uses it.
        self.into.commands = unsafe { self.into.device.allocate_command_buffers(&info) }.map_err(refused)?;
        let everything = vk::PipelineStageFlags::ALL_COMMANDS;
        for (number, cut) in placed.cuts.iter().enumerate() {
            self.commands = self.into.commands[number];
            // SAFETY: it is new.
            unsafe { self.into.device.begin_command_buffer(self.commands, &begin) }.map_err(refused)?;
            self.pipeline_barrier(everything);
            interpret(&placed, cut, &mut self)?;
            self.pipeline_barrier(everything);
            // SAFETY: it is being recorded.
            unsafe { self.into.device.end_command_buffer(self.commands) }.map_err(refused)?;
        }
        let copies = |transfers: Vec<RunTransfer<'_>>| {
            let copy = |one: RunTransfer<'_>| RunCopy { buffer: self.buffer(one.block), at: one.at, bytes: one.bytes };
            transfers.into_iter().map(copy).collect()
        };
        Ok((copies(self.frozen.run_uploads()), copies(self.frozen.run_reads())))
    }

    /// Everything written before, in these stages, is seen by everything after.
    fn pipeline_barrier(&self, stages: vk::PipelineStageFlags) {
        let memory = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the commands are being recorded, outside of any render pass.
        unsafe {
            self.into.device.cmd_pipeline_barrier(self.commands, stages, stages, flags, &[memory], &[], &[]);
        }
    }

    fn zero(&mut self, block: &Block, start: u64, bytes: u64) {
        self.into.counts.transfers += 1;
        let bytes = bytes.next_multiple_of(4);
        // SAFETY: the buffer has the usage, lives as long as the commands are used, and contains the range.
        unsafe { self.into.device.cmd_fill_buffer(self.commands, self.buffer(block), start, bytes, 0) };
    }

    /// Copies `bytes` from an offset of one block to an offset of another.
    fn copy(&mut self, (from, src_offset): (&Block, u64), (to, dst_offset): (&Block, u64), bytes: u64) {
        self.into.counts.transfers += 1;
        let region = vk::BufferCopy { src_offset, dst_offset, size: bytes };
        let (from, to) = (self.buffer(from), self.buffer(to));
        // SAFETY: both live as long as the commands are used, have the usage, and contain the region.
        unsafe { self.into.device.cmd_copy_buffer(self.commands, from, to, &[region]) };
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        let placed = self.placed;
        let kernel = &placed.resources.kernels[dispatch.kernel.0 as usize];
        let (grid, wrapped) = match dispatch.groups {
            Groups::Direct(groups) => (GridSource::Direct(groups), false),
            Groups::Wrapped(groups) => (GridSource::Direct(groups), true),
            Groups::Indirect(id) => (self.checked_grid(&placed.planned.recording.accesses[id.0 as usize])?, false),
        };
        let accesses = &placed.planned.recording.accesses[dispatch.bindings.range()];
        let compiled = self.pipeline(kernel, wrapped)?;
        let own = WgpuKernel::of(kernel)?;
        let mut sets: SmallVec<[Set; 4]> = SmallVec::new();
        for group in own.groups() {
            let places: SlotOffsets =
                accesses[group.bindings.clone()].iter().map(|access| self.place(access)).collect();
            let layout = compiled.sets[group.number as usize];
            let set = self.descriptors.set(self.into, &group.layout, layout, &places)?;
            sets.push((group.number, set, SmallVec::new()));
        }
        if let Some(hidden) = &compiled.hidden {
            let at = dispatch.hidden;
            let offsets = hidden.immediates.map(|_| at.immediates).into_iter().chain(hidden.grid.then_some(at.grid));
            sets.extend(self.hidden(&compiled, hidden, offsets.collect())?);
        }
        let immediates = compiled.immediates.then(|| &placed.resources.immediates[dispatch.immediates.range()]);
        self.into.counts.dispatches += 1;
        self.run(&compiled, &sets, immediates, grid);
        Ok(())
    }

    /// Runs the fill kernel over a part of memory.
    fn fill(&mut self, fill: &Fill) -> Result<()> {
        let (placed, limits, kernel) = (self.placed, self.on.limits, self.on.fill);
        let compiled = self.pipeline(kernel, false)?;
        let own = WgpuKernel::of(kernel)?;
        // A fill starts anywhere; its binding starts at the alignment before it.
        let skipped = fill.to.start % u64::from(limits.slice_alignment);
        let places = [self.place(&Access { start: fill.to.start - skipped, ..fill.to })].into_iter().collect();
        let group = &own.groups()[0];
        let set = self.descriptors.set(self.into, &group.layout, compiled.sets[group.number as usize], &places)?;
        let mut sets: SmallVec<[Set; 4]> = SmallVec::from_iter([(group.number, set, SmallVec::new())]);
        if let Some(hidden) = &compiled.hidden {
            sets.extend(self.hidden(&compiled, hidden, SmallVec::from_elem(fill.hidden_immediates, 1))?);
        }
        let count = fill::words(fill.to.end - fill.to.start);
        let bytes = fill::immediates(fill::words(skipped), count, &placed.resources.immediates[fill.pattern.range()]);
        let immediates = compiled.immediates.then_some(&bytes[..]);
        self.into.counts.dispatches += 1;
        self.run(&compiled, &sets, immediates, GridSource::Direct(fill::grid(count, limits.groups)));
        Ok(())
    }

    /// The set with the hidden parameters, at these offsets.
    fn hidden(
        &mut self,
        compiled: &VulkanPipeline,
        hidden: &Hidden,
        offsets: SmallVec<[u32; 2]>,
    ) -> Result<Option<Set>> {
        let Some(params) = self.placed.params() else { return Ok(None) };
        let buffer = self.buffer(params);
        let sizes = hidden.immediates.into_iter().chain(hidden.grid.then_some(GRID_BLOCK));
        let places = sizes
            .map(|bytes| (BoundRange { buffer: params.id(), offset: 0, bytes: bytes.next_multiple_of(4) }, buffer))
            .collect();
        let layout = compiled.sets[hidden.number as usize];
        let set = self.descriptors.set(self.into, &hidden.layout, layout, &places)?;
        Ok(Some((hidden.number, set, offsets)))
    }

    pub(super) fn run(&self, compiled: &VulkanPipeline, sets: &[Set], immediates: Option<&[u8]>, grid: GridSource) {
        let (device, commands) = (&self.into.device, self.commands);
        // SAFETY: pipeline, layout and sets live as long as the commands are used and were made for each other; the
        // immediates have the layout's size. The grid is within the limits, as was checked while recording, or is checked
        // by the device before.
        unsafe {
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, compiled.raw);
            for (number, set, offsets) in sets {
                let point = vk::PipelineBindPoint::COMPUTE;
                device.cmd_bind_descriptor_sets(commands, point, compiled.layout, *number, &[*set], offsets);
            }
            if let Some(bytes) = immediates {
                let mut bytes: SmallVec<[u8; 128]> = bytes.into();
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                device.cmd_push_constants(commands, compiled.layout, IMMEDIATE_STAGES, 0, &bytes);
            }
            match grid {
                GridSource::Direct([x, y, z]) => device.cmd_dispatch(commands, x, y, z),
                GridSource::Memory(buffer, start) => device.cmd_dispatch_indirect(commands, buffer, start),
            }
        }
    }

    /// The range and buffer that an access binds.
    pub(super) fn place(&self, access: &Access) -> (BoundRange, vk::Buffer) {
        let block = self.placed.block_of(access.slot);
        (BoundRange { buffer: block.id(), offset: access.start, bytes: access.end - access.start }, self.buffer(block))
    }

    pub(super) fn buffer(&self, block: &Block) -> vk::Buffer {
        self.buffers.get(&block.id()).copied().unwrap_or_else(|| unreachable!("asked for before"))
    }

    /// The pipeline of a kernel, compiled unless a recording has it.
    fn pipeline(&mut self, kernel: &Kernel, wrapped: bool) -> Result<Arc<VulkanPipeline>> {
        let immediates = WgpuKernel::of(kernel)?.immediates_as(self.frozen.refreshes_params());
        self.variant(kernel, Variant { immediates, wrapped })
    }

    /// A variant of a kernel, compiled unless a recording has it.
    pub(super) fn variant(&mut self, kernel: &Kernel, variant: Variant) -> Result<Arc<VulkanPipeline>> {
        let key = (kernel.id(), variant);
        if let Some(pipeline) = self.into.pipelines.get(&key) {
            return Ok(pipeline.clone());
        }
        let make = || VulkanPipeline::new(&self.into.device, &self.target, self.on.compiler, kernel, variant);
        let pipeline = self.known.get(key, make)?;
        self.into.pipelines.insert(key, pipeline.clone());
        Ok(pipeline)
    }
}

impl Interpreter for CommandWriter<'_> {
    fn step(&mut self, step: Step) -> Result<()> {
        let placed = self.placed;
        let plan = placed.plan();
        match step {
            Step::Params | Step::Input(_) | Step::Output(_) | Step::Barrier(_) => {}
            Step::Zero(id) => self.zero(placed.block(plan[id].memory), 0, plan[id].bytes),
            Step::Dispatch(id) => self.dispatch(&plan[id])?,
            Step::Copy(id) => {
                let sortie_plan::Copy { from, to, .. } = &plan[id];
                let (from_block, to_block) = (placed.block_of(from.slot), placed.block_of(to.slot));
                self.copy((from_block, from.start), (to_block, to.start), to.end - to.start);
            }
            Step::Fill(id) if plan[id].lane() == Lane::Compute => self.fill(&plan[id])?,
            Step::Fill(id) => {
                let to = &plan[id].to;
                self.zero(placed.block_of(to.slot), to.start, to.end - to.start);
            }
            Step::Write(id) => {
                let (to, at) = (&plan[id].to, u64::from(plan[id].data.start));
                let data = self.frozen.staged.writes.as_ref().ok_or_else(unsuitable)?;
                self.copy((data, at), (placed.block_of(to.slot), to.start), to.end - to.start);
            }
            Step::Read(id) => {
                let (from, at) = (&plan[id].from, u64::from(plan[id].to.start));
                let data = self.frozen.staged.reads.as_ref().ok_or_else(unsuitable)?;
                self.copy((placed.block_of(from.slot), from.start), (data, at), from.end - from.start);
            }
        }
        Ok(())
    }

    fn barrier(&mut self, _: BarrierKind) {
        self.pipeline_barrier(vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER);
    }

    fn executed(&mut self, _: StepId) {}
}
