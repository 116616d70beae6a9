//! Native replay: a recording written once into a Vulkan secondary command buffer, and executed by one command in every run.
//!
//! wgpu does not know what the secondary does, so these facts make it right:
//! - the secondary begins and ends with a barrier over all memory, so that what wgpu encodes before and after it, in encoders of their own, is in
//!   order with it whatever state wgpu believes buffers to be in;
//! - inside, there is a barrier between any two waves of the plan; ops of one wave do not conflict;
//! - every buffer it touches was initialised through wgpu when the recording was frozen, so that wgpu never zeroes one lazily afterwards;
//! - whoever submits it holds its buffers, and this, until the submission is done;
//! - kernels are compiled from the module that wgpu was given, with the checks that wgpu asks of naga: out-of-bounds accesses do what they do
//!   through wgpu;
//! - imported buffers, which their owner may destroy, are named to wgpu in every run (see [`super::Wgpu::replay`]): it refuses the submission then.
//!
//! Objects are freed when the last holder lets go, which is after the last use.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use std::{ffi::CString, ops::Range, sync::Arc};

use ash::vk;
use naga::{
    back::spv,
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sortie_plan::{Access, Lane, Op, OpKind, SlotId};

use super::{Frozen, commands::folded, direct::Direct, groups::Bound};
use crate::{
    device::Shared,
    error::{Error, Result},
    kernel::{GRID_BLOCK, Kernel, Layout, SignatureKind},
    memory::{Block, BufferId},
};

type Api = wgpu::hal::api::Vulkan;

/// A recording as Vulkan has it.
pub(crate) struct Secondary {
    device: ash::Device,
    pool: vk::CommandPool,
    /// One for each submission.
    commands: Vec<vk::CommandBuffer>,
    descriptors: Vec<vk::DescriptorPool>,
    set_layouts: Vec<vk::DescriptorSetLayout>,
    layouts: Vec<vk::PipelineLayout>,
    pipelines: Vec<vk::Pipeline>,
    dispatches: u64,
    transfers: u64,
    /// For runs that need nothing of wgpu's, on a device of our own.
    direct: Option<Direct>,
    /// Keeps the device alive; dropped last.
    _gpu: wgpu::Device,
}

impl Secondary {
    /// Whether a recording can be written down: on Vulkan, without ops that every run must encode.
    pub(super) fn suits(shared: &Shared, frozen: &Frozen) -> bool {
        let plain = |op: &Op| !op.indirect && !matches!(op.kind, OpKind::Write | OpKind::Read);
        // SAFETY: nothing is done with it.
        let vulkan = unsafe { shared.gpu().as_hal::<Api>() }.is_some();
        vulkan && !frozen.parts().is_empty() && frozen.planned.recording.ops.iter().all(plain)
    }

    /// Writes a frozen recording down, which [suits](Self::suits) it and whose buffers wgpu has checked.
    pub(super) fn record(shared: &Arc<Shared>, frozen: &Frozen) -> Result<Option<Self>> {
        let gpu: &wgpu::Device = shared.gpu();
        // SAFETY: nothing is destroyed through the guard; the device outlives it.
        let Some(hal) = (unsafe { gpu.as_hal::<Api>() }) else { return Ok(None) };
        let device = hal.raw_device().clone();
        let target = Target::of(&hal, gpu.features());
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(hal.queue_family_index());
        // SAFETY: the device is alive; the family is that of its queue.
        let pool = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        let queue = hal.raw_queue();
        drop(hal);
        let mut secondary = Self {
            device,
            pool,
            commands: Vec::new(),
            descriptors: Vec::new(),
            set_layouts: Vec::new(),
            layouts: Vec::new(),
            pipelines: Vec::new(),
            dispatches: 0,
            transfers: 0,
            direct: None,
            _gpu: gpu.clone(),
        };
        let mut writer = Writer {
            shared,
            frozen,
            target,
            into: &mut secondary,
            commands: vk::CommandBuffer::null(),
            buffers: FxHashMap::default(),
            kernels: FxHashMap::default(),
            sets: FxHashMap::default(),
        };
        writer.find_buffers()?;
        writer.compile_all()?;
        // A destroyed device frees its buffers, and Vulkan must not be given what is freed. Not while this one is held.
        // SAFETY: nothing is destroyed through the guard.
        let Some(held) = (unsafe { shared.first_buffer().as_hal::<Api>() }) else { return Err(gone()) };
        writer.write()?;
        drop(held);
        if !shared.gpu().guest() && frozen.imported.is_empty() && shared.submitter().has_timeline() {
            let direct = Direct::new(&secondary.device, queue, secondary.pool, &secondary.commands).map_err(refused)?;
            secondary.direct = Some(direct);
        }
        Ok(Some(secondary))
    }

    /// What submits it past wgpu, where that may be.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }

    /// Dispatches and transfers of a run.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.dispatches, self.transfers]
    }

    /// Has an encoder, to which nothing else has been or will be given, execute one of its submissions. Fails where the encoder is none of Vulkan's any more: the device was destroyed.
    pub(super) fn execute(&self, part: usize, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        // SAFETY: nothing else is done with this encoder; its command buffer is being recorded and is not ended here. The secondary is
        // executable, may be pending more than once at a time, and is of the same device and queue family.
        let recorded = unsafe {
            encoder.as_hal_mut::<Api, _, _>(|encoder| {
                let raw = encoder.map(|encoder| encoder.raw_handle());
                raw.map(|raw| self.device.cmd_execute_commands(raw, &[self.commands[part]]))
            })
        };
        recorded.ok_or_else(|| Error::internal("wgpu gave no command buffer for a native replay"))
    }
}

impl Drop for Secondary {
    fn drop(&mut self) {
        // SAFETY: all of it was made by this device, which lives; whoever submitted the commands held this until they were done.
        unsafe {
            self.device.destroy_command_pool(self.pool, None);
            self.descriptors.iter().for_each(|pool| self.device.destroy_descriptor_pool(*pool, None));
            self.pipelines.iter().for_each(|pipeline| self.device.destroy_pipeline(*pipeline, None));
            self.layouts.iter().for_each(|layout| self.device.destroy_pipeline_layout(*layout, None));
            self.set_layouts.iter().for_each(|layout| self.device.destroy_descriptor_set_layout(*layout, None));
        }
    }
}

impl std::fmt::Debug for Secondary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secondary").field("dispatches", &self.dispatches).finish_non_exhaustive()
    }
}

fn refused(error: vk::Result) -> Error {
    Error::internal(format!("Vulkan refused a native replay: {error}"))
}

/// What kernels are compiled for: as wgpu has it.
struct Target {
    options: spv::Options<'static>,
    flags: vk::PipelineShaderStageCreateFlags,
}

impl Target {
    fn of(hal: &wgpu::hal::vulkan::Device, features: wgpu::Features) -> Self {
        let instance = hal.shared_instance().raw_instance();
        let physical = hal.raw_physical_device();
        let robust = hal.enabled_device_extensions().contains(&ash::ext::robustness2::NAME);
        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut asked = vk::PhysicalDeviceFeatures2::default();
        // SAFETY: the physical device is this instance's; the structures are as long as they say.
        let version = unsafe {
            if robust {
                asked = asked.push_next(&mut robustness);
                instance.get_physical_device_features2(physical, &mut asked);
            }
            instance.get_physical_device_properties(physical).api_version
        };
        let checked_by_device = robust && robustness.robust_buffer_access2 == vk::TRUE;
        let options = spv::Options {
            lang_version: if version >= vk::API_VERSION_1_1 { (1, 3) } else { (1, 0) },
            flags: spv::WriterFlags::empty(),
            bounds_check_policies: BoundsCheckPolicies {
                index: BoundsCheckPolicy::Restrict,
                buffer: if checked_by_device { BoundsCheckPolicy::Unchecked } else { BoundsCheckPolicy::Restrict },
                image_load: BoundsCheckPolicy::Restrict,
                binding_array: BoundsCheckPolicy::Restrict,
            },
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
            force_loop_bounding: true,
            use_storage_input_output_16: false,
            ..spv::Options::default()
        };
        let flags = if features.contains(wgpu::Features::SUBGROUP) {
            vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE
        } else {
            vk::PipelineShaderStageCreateFlags::empty()
        };
        Self { options, flags }
    }
}

/// A kernel as Vulkan has it.
#[derive(Clone)]
struct Compiled {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
    /// By number of the group.
    sets: Arc<[vk::DescriptorSetLayout]>,
}

/// A set to be bound: its number, the set, dynamic offsets.
type Set = (u32, vk::DescriptorSet, SmallVec<[u32; 2]>);
/// What a set binds.
type Places = SmallVec<[(Bound, vk::Buffer); 8]>;
/// Descriptor sets are found again by their layout and what they bind.
type SetKey = (u64, SmallVec<[Bound; 8]>);

struct Writer<'a> {
    shared: &'a Arc<Shared>,
    frozen: &'a Frozen,
    target: Target,
    into: &'a mut Secondary,
    /// What is being written.
    commands: vk::CommandBuffer,
    buffers: FxHashMap<BufferId, vk::Buffer>,
    kernels: FxHashMap<(u64, bool), Compiled>,
    sets: FxHashMap<SetKey, vk::DescriptorSet>,
}

impl Writer<'_> {
    /// Asks wgpu for all buffers: it cannot be asked while one of them is held.
    fn find_buffers(&mut self) -> Result<()> {
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

    fn compile_all(&mut self) -> Result<()> {
        let frozen = self.frozen;
        for (kernel, wrapped) in &frozen.planned.variants {
            self.compiled(&frozen.payload.kernels[*kernel as usize], *wrapped)?;
        }
        Ok(())
    }

    fn buffer(&self, block: &Block) -> vk::Buffer {
        self.buffers.get(&block.id()).copied().unwrap_or_else(|| unreachable!("asked for before"))
    }

    fn write(mut self) -> Result<()> {
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
        let compiled = self.compiled(kernel, wrapped)?;
        let pipeline = kernel.compiled(wrapped).unwrap_or_else(|| unreachable!("compiled when it was frozen"));
        let mut bound: SmallVec<[Set; 4]> = SmallVec::new();
        for group in kernel.groups() {
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
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, compiled.pipeline);
            for (number, set, offsets) in &bound {
                let point = vk::PipelineBindPoint::COMPUTE;
                device.cmd_bind_descriptor_sets(commands, point, compiled.layout, *number, &[*set], offsets);
            }
            if pipeline.immediates {
                let mut bytes: SmallVec<[u8; 128]> = frozen.payload.immediates[op.data.range()].into();
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                device.cmd_push_constants(commands, compiled.layout, vk::ShaderStageFlags::COMPUTE, 0, &bytes);
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
        let writes: SmallVec<[_; 8]> = layout
            .signature()
            .iter()
            .zip(&infos)
            .map(|(one, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(one.binding)
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

    fn compiled(&mut self, kernel: &Kernel, wrapped: bool) -> Result<Compiled> {
        let key = (kernel.id(), wrapped);
        if let Some(compiled) = self.kernels.get(&key) {
            return Ok(compiled.clone());
        }
        let compiled = self.compile(kernel, wrapped)?;
        self.kernels.insert(key, compiled.clone());
        Ok(compiled)
    }

    fn compile(&mut self, kernel: &Kernel, wrapped: bool) -> Result<Compiled> {
        let pipeline = kernel.compiled(wrapped).unwrap_or_else(|| unreachable!("compiled when it was frozen"));
        let groups = kernel.groups().iter().map(|group| (group.number, &group.layout));
        let hidden = pipeline.hidden.iter().map(|hidden| (hidden.number, &hidden.layout));
        let numbered: FxHashMap<u32, &Arc<Layout>> = groups.chain(hidden).collect();
        let count = numbered.keys().max().map_or(0, |last| last + 1);
        let mut sets = Vec::new();
        for number in 0..count {
            let signature = numbered.get(&number).map_or(&[][..], |layout| layout.signature());
            let bindings: Vec<_> = signature
                .iter()
                .map(|one| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(one.binding)
                        .descriptor_type(descriptor(one.kind, one.dynamic))
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is alive.
            let layout = unsafe { self.into.device.create_descriptor_set_layout(&info, None) }.map_err(refused)?;
            self.into.set_layouts.push(layout);
            sets.push(layout);
        }
        let ranges = [vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: kernel.native_immediate_bytes().next_multiple_of(4),
        }];
        let ranges = if pipeline.immediates { &ranges[..] } else { &[] };
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(ranges);
        // SAFETY: the set layouts are this device's.
        let layout = unsafe { self.into.device.create_pipeline_layout(&info, None) }.map_err(refused)?;
        self.into.layouts.push(layout);

        let words = kernel.spirv(self.shared, wrapped, &self.target.options)?;
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        let entry =
            CString::new(kernel.entry()).map_err(|_| Error::internal("an entry point with a zero in its name"))?;
        // SAFETY: naga wrote the module from what it has validated; it is destroyed once the pipeline is there.
        let pipeline = unsafe {
            let module = self.into.device.create_shader_module(&info, None).map_err(refused)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .flags(self.target.flags)
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(&entry);
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let made = self.into.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            self.into.device.destroy_shader_module(module, None);
            made.map_err(|(_, error)| refused(error))?[0]
        };
        self.into.pipelines.push(pipeline);
        Ok(Compiled { pipeline, layout, sets: sets.into() })
    }
}

fn gone() -> Error {
    Error::internal("a buffer of a native replay is gone")
}

fn descriptor(kind: SignatureKind, dynamic: bool) -> vk::DescriptorType {
    match (kind, dynamic) {
        (SignatureKind::Read | SignatureKind::ReadWrite, false) => vk::DescriptorType::STORAGE_BUFFER,
        (SignatureKind::Read | SignatureKind::ReadWrite, true) => vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
        (SignatureKind::Uniform, false) => vk::DescriptorType::UNIFORM_BUFFER,
        (SignatureKind::Uniform, true) => vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
    }
}

/// Whether a buffer has been destroyed by its owner.
pub(super) fn is_gone(block: &Block) -> bool {
    raw(block) == vk::Buffer::null()
}

/// Vulkan's handle of a block's buffer.
fn raw(block: &Block) -> vk::Buffer {
    // SAFETY: the handle is not destroyed; who uses it holds the block.
    unsafe {
        let buffer = block.buffer().as_hal::<Api>();
        buffer.map_or(vk::Buffer::null(), |buffer| buffer.raw_handle())
    }
}
