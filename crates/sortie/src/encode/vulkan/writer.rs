//! Writes a frozen recording into secondary command buffers, one for each submission.

use std::{ops::Range, sync::Arc};

use ash::vk;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sortie_plan::{Access, Lane, Op, OpKind, SlotId};

use super::{
    Secondary, gone,
    pipelines::{IMMEDIATE_STAGES, Pipeline, Pipelines, descriptor},
    raw, refused,
    target::Target,
};
use crate::{
    backend::wgpu::{kernel::WgpuKernel, layouts::Layout},
    device::Shared,
    encode::{Frozen, commands::folded, groups::Bound},
    error::Result,
    kernel::{GRID_BLOCK, Kernel},
    memory::{Block, BufferId},
};

/// A set to be bound: its number, the set, dynamic offsets.
type Set = (u32, vk::DescriptorSet, SmallVec<[u32; 2]>);
/// What a set binds.
type Places = SmallVec<[(Bound, vk::Buffer); 8]>;
/// Descriptor sets are found again by their layout and what they bind.
type SetKey = (u64, SmallVec<[Bound; 8]>);

pub(super) struct Writer<'a> {
    shared: &'a Arc<Shared>,
    frozen: &'a Frozen,
    target: Target,
    into: &'a mut Secondary,
    /// What is being written.
    commands: vk::CommandBuffer,
    /// Pipelines of an earlier recording.
    known: Option<&'a Pipelines>,
    buffers: FxHashMap<BufferId, vk::Buffer>,
    sets: FxHashMap<SetKey, vk::DescriptorSet>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        frozen: &'a Frozen,
        target: Target,
        known: Option<&'a Pipelines>,
        into: &'a mut Secondary,
    ) -> Self {
        Self {
            shared,
            frozen,
            target,
            into,
            commands: vk::CommandBuffer::null(),
            known,
            buffers: FxHashMap::default(),
            sets: FxHashMap::default(),
        }
    }

    /// Asks wgpu for all buffers: it cannot be asked while one of them is held.
    pub(super) fn find_buffers(&mut self) -> Result<()> {
        let frozen = self.frozen;
        let scratch = frozen.physical.iter().chain(&frozen.params);
        for block in frozen.payload.blocks.iter().flatten().chain(scratch) {
            match raw(block) {
                buffer if buffer == vk::Buffer::null() => return Err(gone()),
                buffer => self.buffers.insert(block.id(), buffer),
            };
        }
        Ok(())
    }

    /// Compiles all kernels, which takes long and needs no buffers.
    pub(super) fn compile(&mut self) -> Result<()> {
        let frozen = self.frozen;
        for (kernel, wrapped) in &frozen.planned.variants {
            self.pipeline(&frozen.payload.kernels[*kernel as usize], *wrapped)?;
        }
        Ok(())
    }

    fn buffer(&self, block: &Block) -> vk::Buffer {
        self.buffers.get(&block.id()).copied().unwrap_or_else(|| unreachable!("asked for before"))
    }

    pub(super) fn write(mut self) -> Result<()> {
        let parts = self.frozen.parts();
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.into.pool)
            .level(vk::CommandBufferLevel::SECONDARY)
            .command_buffer_count(u32::try_from(parts.len()).unwrap_or(u32::MAX));
        let inheritance = vk::CommandBufferInheritanceInfo::default();
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .inheritance_info(&inheritance);
        // SAFETY: the pool is this device's, and nobody else uses it.
        self.into.commands = unsafe { self.into.device.allocate_command_buffers(&info) }.map_err(refused)?;
        let everything = vk::PipelineStageFlags::ALL_COMMANDS;
        for (number, part) in parts.iter().enumerate() {
            self.commands = self.into.commands[number];
            // SAFETY: it is new.
            unsafe { self.into.device.begin_command_buffer(self.commands, &begin) }.map_err(refused)?;
            self.barrier(everything, everything);
            self.waves(part.ops.range())?;
            self.barrier(everything, everything);
            // SAFETY: it is being recorded.
            unsafe { self.into.device.end_command_buffer(self.commands) }.map_err(refused)?;
        }
        Ok(())
    }

    /// A stretch of the order.
    fn waves(&mut self, ops: Range<usize>) -> Result<()> {
        let frozen = self.frozen;
        let (plan, recording) = (&frozen.planned.plan, &frozen.planned.recording);
        let between = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
        let mut clears = plan.clears.iter().filter(|clear| clear.first && ops.start == 0).peekable();
        if clears.peek().is_some() {
            clears.for_each(|clear| self.zero(&frozen.physical[clear.physical.0 as usize], 0, clear.bytes));
            self.barrier(between, between);
        }
        let first = plan.waves.partition_point(|wave| wave.ops.range().end <= ops.start);
        // Sorted by wave.
        let skipped = plan.clears.partition_point(|clear| (clear.wave as usize) < first);
        let mut clears = plan.clears[skipped..].iter().filter(|clear| !clear.first).peekable();
        for (number, wave) in plan.waves.iter().enumerate().skip(first) {
            let (from, to) = (wave.ops.range().start.max(ops.start), wave.ops.range().end.min(ops.end));
            if from >= to {
                break;
            }
            if number > first {
                self.barrier(between, between);
            }
            let mut cleared = false;
            while let Some(clear) = clears.next_if(|clear| clear.wave as usize == number) {
                // Before the first part of a wave that was cut.
                if wave.ops.range().start >= ops.start {
                    self.zero(&frozen.physical[clear.physical.0 as usize], 0, clear.bytes);
                    cleared = true;
                }
            }
            if cleared {
                self.barrier(between, between);
            }
            for op in &plan.order[from..to] {
                let (index, op) = (*op as usize, &recording.ops[*op as usize]);
                match op.lane {
                    Lane::Compute if op.grid.contains(&0) => {}
                    Lane::Compute => self.dispatch(index, op, recording.accesses_of(op))?,
                    Lane::Transfer => self.transfer(op, recording.accesses_of(op)),
                }
            }
        }
        Ok(())
    }

    /// Everything written before is seen by everything after.
    fn barrier(&self, before: vk::PipelineStageFlags, after: vk::PipelineStageFlags) {
        let memory = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the commands are being recorded, outside of any render pass.
        unsafe {
            self.into.device.cmd_pipeline_barrier(self.commands, before, after, flags, &[memory], &[], &[]);
        }
    }

    fn zero(&mut self, block: &Block, start: u64, bytes: u64) {
        self.into.transfers += 1;
        let bytes = bytes.next_multiple_of(4);
        // SAFETY: the buffer has the usage for it, is alive as long as the commands are used, and the range lies within.
        unsafe { self.into.device.cmd_fill_buffer(self.commands, self.buffer(block), start, bytes, 0) };
    }

    fn transfer(&mut self, op: &Op, accesses: &[Access]) {
        match (op.kind, accesses) {
            (OpKind::Copy, [from, to]) => {
                self.into.transfers += 1;
                let region = vk::BufferCopy { src_offset: from.start, dst_offset: to.start, size: to.end - to.start };
                let (from, to) = (self.buffer(self.block(from.slot)), self.buffer(self.block(to.slot)));
                // SAFETY: both are alive as long as the commands are used, have the usage, and hold the region.
                unsafe { self.into.device.cmd_copy_buffer(self.commands, from, to, &[region]) };
            }
            (OpKind::Fill, [to]) => {
                let frozen = self.frozen;
                if let Some(block) = &frozen.payload.blocks[to.slot.0 as usize] {
                    self.zero(block, to.start, to.end - to.start);
                }
            }
            // Fences, and ops of length 0.
            _ => {}
        }
    }

    fn dispatch(&mut self, index: usize, op: &Op, accesses: &[Access]) -> Result<()> {
        let frozen = self.frozen;
        let kernel = &frozen.payload.kernels[op.kernel as usize];
        let wrapped = op.params[1] > 0;
        let compiled = self.pipeline(kernel, wrapped)?;
        let own = WgpuKernel::of(kernel)?;
        let pipeline = own.pipeline(wrapped).unwrap_or_else(|| unreachable!("compiled when it was frozen"));
        let mut bound: SmallVec<[Set; 4]> = SmallVec::new();
        for group in own.groups() {
            let bindings = accesses[group.bindings.clone()].iter();
            let places: Places = bindings.map(|access| self.place(op, access)).collect();
            let layout = compiled.sets[group.number as usize];
            bound.push((group.number, self.set(&group.layout, layout, &places)?, SmallVec::new()));
        }
        if let (Some(hidden), Some(params)) = (&pipeline.hidden, &frozen.params) {
            let sizes = hidden.immediates.into_iter().chain(hidden.grid.then_some(GRID_BLOCK));
            let places = sizes.map(|bytes| {
                (Bound { buffer: params.id(), offset: 0, bytes: bytes.next_multiple_of(4) }, self.buffer(params))
            });
            let set = self.set(&hidden.layout, compiled.sets[hidden.number as usize], &places.collect())?;
            let [immediates, grid] = frozen.planned.plan.params[index];
            let offsets = hidden.immediates.map(|_| immediates).into_iter().chain(hidden.grid.then_some(grid));
            bound.push((hidden.number, set, offsets.collect()));
        }
        let most = self.shared.limits().groups;
        let [x, y, z] = if wrapped { folded(op, most) } else { op.grid };
        self.into.dispatches += 1;
        let (device, commands) = (&self.into.device, self.commands);
        // SAFETY: pipeline, layout and sets are alive as long as the commands are used and were made for each other; immediates are as long as
        // the layout says; the grid is within the device's limits, as was checked while recording.
        unsafe {
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, compiled.raw);
            for (number, set, offsets) in &bound {
                let point = vk::PipelineBindPoint::COMPUTE;
                device.cmd_bind_descriptor_sets(commands, point, compiled.layout, *number, &[*set], offsets);
            }
            if pipeline.immediates {
                let mut bytes: SmallVec<[u8; 128]> = frozen.payload.immediates[op.data.range()].into();
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                device.cmd_push_constants(commands, compiled.layout, IMMEDIATE_STAGES, 0, &bytes);
            }
            device.cmd_dispatch(commands, x, y, z);
        }
        Ok(())
    }

    /// What an access binds.
    fn place(&self, op: &Op, access: &Access) -> (Bound, vk::Buffer) {
        let block = self.block(access.slot);
        let offset = match op.kind {
            // A fill starts anywhere; its binding starts at the alignment before it.
            OpKind::Fill => access.start - access.start % u64::from(self.shared.limits().slice_alignment),
            _ => access.start,
        };
        (Bound { buffer: block.id(), offset, bytes: access.end - offset }, self.buffer(block))
    }

    fn block(&self, slot: SlotId) -> &Block {
        let block = self.frozen.payload.blocks[slot.0 as usize].as_ref();
        block.unwrap_or_else(|| unreachable!("a slot in use has a block"))
    }

    /// A descriptor set that binds these places.
    fn set(
        &mut self,
        layout: &Layout,
        raw_layout: vk::DescriptorSetLayout,
        places: &Places,
    ) -> Result<vk::DescriptorSet> {
        let key = (layout.id(), places.iter().map(|(bound, _)| *bound).collect());
        if let Some(set) = self.sets.get(&key) {
            return Ok(*set);
        }
        let set = self.allocate(raw_layout)?;
        let infos: SmallVec<[_; 8]> = places
            .iter()
            .map(|(bound, buffer)| {
                [vk::DescriptorBufferInfo { buffer: *buffer, offset: bound.offset, range: bound.bytes }]
            })
            .collect();
        let writes: SmallVec<[_; 8]> = (0..)
            .zip(layout.signature())
            .zip(&infos)
            .map(|((binding, one), info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(descriptor(one.kind, one.dynamic))
                    .buffer_info(info)
            })
            .collect();
        // SAFETY: the set is new, and the buffers are alive as long as it is used.
        unsafe { self.into.device.update_descriptor_sets(&writes, &[]) };
        self.sets.insert(key, set);
        Ok(set)
    }

    /// A new set, out of a new pool when the last one is full.
    fn allocate(&mut self, layout: vk::DescriptorSetLayout) -> Result<vk::DescriptorSet> {
        const SETS: u32 = 512;
        let layouts = [layout];
        if let Some(pool) = self.into.descriptors.last() {
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(*pool).set_layouts(&layouts);
            // SAFETY: pool and layout are this device's, and nobody else uses the pool.
            match unsafe { self.into.device.allocate_descriptor_sets(&info) } {
                Ok(sets) => return Ok(sets[0]),
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        let sizes = [
            (vk::DescriptorType::STORAGE_BUFFER, 16),
            (vk::DescriptorType::UNIFORM_BUFFER, 12),
            (vk::DescriptorType::STORAGE_BUFFER_DYNAMIC, 2),
            (vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC, 2),
        ]
        .map(|(ty, each)| vk::DescriptorPoolSize { ty, descriptor_count: SETS * each });
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS).pool_sizes(&sizes);
        // SAFETY: the device is alive. The second call is as the first one.
        unsafe {
            let pool = self.into.device.create_descriptor_pool(&info, None).map_err(refused)?;
            self.into.descriptors.push(pool);
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            Ok(self.into.device.allocate_descriptor_sets(&info).map_err(refused)?[0])
        }
    }

    /// The pipeline of a variant, compiled if no recording of this replay has had it.
    fn pipeline(&mut self, kernel: &Kernel, wrapped: bool) -> Result<Arc<Pipeline>> {
        let key = (kernel.id(), wrapped);
        if let Some(pipeline) = self.into.pipelines.get(&key) {
            return Ok(pipeline.clone());
        }
        let pipeline = match self.known.and_then(|known| known.get(&key)) {
            Some(pipeline) => pipeline.clone(),
            None => Arc::new(Pipeline::new(&self.into.device, &self.target, self.shared.compiler(), kernel, wrapped)?),
        };
        self.into.pipelines.insert(key, pipeline.clone());
        Ok(pipeline)
    }
}
