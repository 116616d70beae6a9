//! Vulkan by hand: nothing but commands, a submission and a fence. Descriptor sets are written once.

#![expect(unsafe_code, reason = "Vulkan is called as it is")]

use ash::{Device, Entry, Instance, vk};
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::case::Case;
use crate::comparison::{Outcome, Runner};
use crate::dispatches::{GROUP, ITEMS, STEP};

/// Bytes of a buffer.
const BYTES: u64 = ITEMS as u64 * 4;

/// What of a run is done anew each time.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// The commands are recorded.
    Record,
    /// Nothing: commands recorded in the first run are submitted again.
    Resubmit,
}

/// An open device. All that was made with it is destroyed before it is.
struct Opened {
    _entry: Entry,
    instance: Instance,
    physical: vk::PhysicalDevice,
    family: u32,
    device: Device,
}

impl Opened {
    fn new(name: &str) -> Outcome<Self> {
        // SAFETY: the loader is loaded and called as its documentation asks; nothing is used after it was destroyed.
        unsafe {
            let entry = Entry::load()?;
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
            let information = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&information, None)?;
            let physical = instance.enumerate_physical_devices()?.into_iter().find(|&physical| {
                let properties = instance.get_physical_device_properties(physical);
                properties.device_name_as_c_str().is_ok_and(|own| own.to_string_lossy().contains(name))
            });
            let physical = physical.ok_or("Vulkan does not see it")?;
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = u32::try_from(family.ok_or("no queue computes")?)?;
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let information = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            let device = instance.create_device(physical, &information, None)?;
            Ok(Self { _entry: entry, instance, physical, family, device })
        }
    }

    /// Memory that the host sees and need not flush.
    fn allocate(&self, bytes: u64, types: u32) -> Outcome<vk::DeviceMemory> {
        // SAFETY: the index is one of the device's memory types.
        unsafe {
            let memory = self.instance.get_physical_device_memory_properties(self.physical);
            let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let suits = |&index: &u32| {
                types & (1 << index) != 0 && memory.memory_types[index as usize].property_flags.contains(wanted)
            };
            let index = (0..memory.memory_type_count).find(suits).ok_or("no memory that the host sees")?;
            let information = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(index);
            Ok(self.device.allocate_memory(&information, None)?)
        }
    }
}

/// A program in Vulkan.
pub(crate) struct Vulkan {
    opened: Opened,
    way: Way,
    case: Case,
    queue: vk::Queue,
    commands_pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    memory: vk::DeviceMemory,
    mapped: *const u32,
    /// The distance of two buffers in the memory, in bytes.
    stride: u64,
    buffers: Vec<vk::Buffer>,
    sets_pool: vk::DescriptorPool,
    sets: Vec<vk::DescriptorSet>,
    recorded: bool,
}

impl Vulkan {
    /// Opens a device, and makes all that a run needs.
    pub(crate) fn new(adapter: &str, way: Way, case: Case) -> Outcome<Self> {
        let opened = Opened::new(adapter)?;
        let device = &opened.device;
        // SAFETY: all handles are of this device, and what they are made from outlives them.
        unsafe {
            let queue = device.get_device_queue(opened.family, 0);
            let information = vk::CommandPoolCreateInfo::default().queue_family_index(opened.family);
            let commands_pool = device.create_command_pool(&information, None)?;
            let information = vk::CommandBufferAllocateInfo::default()
                .command_pool(commands_pool)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&information)?[0];
            let fence = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            let (set_layout, layout, pipeline) = pipeline(device)?;
            let dispatches = case.dispatches();
            let buffers = (0..dispatches.buffers).map(|_| buffer(device)).collect::<Result<Vec<_>, _>>()?;
            let needs = device.get_buffer_memory_requirements(buffers[0]);
            let stride = needs.size.next_multiple_of(needs.alignment);
            let bytes = stride * buffers.len() as u64;
            let memory = opened.allocate(bytes, needs.memory_type_bits)?;
            for (&buffer, at) in buffers.iter().zip(0..) {
                device.bind_buffer_memory(buffer, memory, at * stride)?;
            }
            let mapped = device.map_memory(memory, 0, bytes, vk::MemoryMapFlags::empty())?;
            mapped.cast::<u8>().write_bytes(0, usize::try_from(bytes)?);
            let (sets_pool, sets) = sets(device, set_layout, &buffers, &dispatches.routes)?;
            let mapped = mapped.cast::<u32>().cast_const();
            Ok(Self {
                way,
                case,
                queue,
                commands_pool,
                commands,
                fence,
                set_layout,
                layout,
                pipeline,
                memory,
                mapped,
                stride,
                buffers,
                sets_pool,
                sets,
                recorded: false,
                opened,
            })
        }
    }

    fn record(&self, n: usize) -> Outcome<()> {
        let device = &self.opened.device;
        let flags = match self.way {
            Way::Record => vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT,
            Way::Resubmit => vk::CommandBufferUsageFlags::empty(),
        };
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE)];
        let compute = vk::PipelineStageFlags::COMPUTE_SHADER;
        let bind = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: nothing that was recorded before is under way: every run waits for its fence.
        unsafe {
            device.reset_command_pool(self.commands_pool, vk::CommandPoolResetFlags::empty())?;
            device.begin_command_buffer(self.commands, &vk::CommandBufferBeginInfo::default().flags(flags))?;
            device.cmd_bind_pipeline(self.commands, bind, self.pipeline);
            for op in 0..n {
                if op > 0 && op.is_multiple_of(self.case.apart()) {
                    let none = vk::DependencyFlags::empty();
                    device.cmd_pipeline_barrier(self.commands, compute, compute, none, &barrier, &[], &[]);
                }
                let set = [self.sets[op % self.sets.len()]];
                device.cmd_bind_descriptor_sets(self.commands, bind, self.layout, 0, &set, &[]);
                device.cmd_dispatch(self.commands, (ITEMS / GROUP) as u32, 1, 1);
            }
            Ok(device.end_command_buffer(self.commands)?)
        }
    }
}

impl Runner for Vulkan {
    fn run(&mut self, n: usize) -> Outcome<()> {
        if self.way == Way::Record || !self.recorded {
            self.record(n)?;
            self.recorded = true;
        }
        let device = &self.opened.device;
        let commands = [self.commands];
        let submission = [vk::SubmitInfo::default().command_buffers(&commands)];
        // SAFETY: the commands are recorded and not under way; the fence is not signalled.
        unsafe {
            device.queue_submit(self.queue, &submission, self.fence)?;
            device.wait_for_fences(&[self.fence], true, u64::MAX)?;
            device.reset_fences(&[self.fence])?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        let at = usize::try_from(self.stride)? / 4 * self.case.dispatches().answer;
        // SAFETY: the place is within the mapped memory, and nothing is under way.
        Ok(unsafe { self.mapped.add(at).read_volatile() })
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        let device = &self.opened.device;
        // SAFETY: nothing is under way, and nothing is used after it was destroyed.
        unsafe {
            device.destroy_descriptor_pool(self.sets_pool, None);
            for &buffer in &self.buffers {
                device.destroy_buffer(buffer, None);
            }
            device.free_memory(self.memory, None);
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
            device.destroy_fence(self.fence, None);
            device.destroy_command_pool(self.commands_pool, None);
            device.destroy_device(None);
            self.opened.instance.destroy_instance(None);
        }
    }
}

fn spirv() -> Outcome<Vec<u32>> {
    let module = naga::front::wgsl::parse_str(STEP)?;
    let information = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module)?;
    Ok(spv::write_vec(&module, &information, &spv::Options::default(), None)?)
}

unsafe fn pipeline(device: &Device) -> Outcome<(vk::DescriptorSetLayout, vk::PipelineLayout, vk::Pipeline)> {
    let binding = |at| {
        vk::DescriptorSetLayoutBinding::default()
            .binding(at)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
    };
    let bindings = [binding(0), binding(1)];
    let code = spirv()?;
    // SAFETY: the caller's: the device is open.
    unsafe {
        let information = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let set_layout = device.create_descriptor_set_layout(&information, None)?;
        let set_layouts = [set_layout];
        let information = vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts);
        let layout = device.create_pipeline_layout(&information, None)?;
        let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let information = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &information, None);
        device.destroy_shader_module(module, None);
        Ok((set_layout, layout, made.map_err(|(_, error)| error)?[0]))
    }
}

unsafe fn buffer(device: &Device) -> ash::prelude::VkResult<vk::Buffer> {
    let information = vk::BufferCreateInfo::default().size(BYTES).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    // SAFETY: the caller's: the device is open.
    unsafe { device.create_buffer(&information, None) }
}

unsafe fn sets(
    device: &Device,
    layout: vk::DescriptorSetLayout,
    buffers: &[vk::Buffer],
    routes: &[(usize, usize)],
) -> Outcome<(vk::DescriptorPool, Vec<vk::DescriptorSet>)> {
    let count = u32::try_from(routes.len())?;
    let kind = vk::DescriptorType::STORAGE_BUFFER;
    let sizes = [vk::DescriptorPoolSize::default().ty(kind).descriptor_count(2 * count)];
    let information = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
    // SAFETY: the caller's: the device is open, and layout and buffers are its own.
    unsafe {
        let pool = device.create_descriptor_pool(&information, None)?;
        let layouts = vec![layout; routes.len()];
        let information = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        let sets = device.allocate_descriptor_sets(&information)?;
        for (&set, &(from, to)) in sets.iter().zip(routes) {
            for (at, binding) in [from, to].into_iter().zip(0..) {
                let places = [vk::DescriptorBufferInfo::default().buffer(buffers[at]).range(vk::WHOLE_SIZE)];
                let write = vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(kind)
                    .buffer_info(&places);
                device.update_descriptor_sets(&[write], &[]);
            }
        }
        Ok((pool, sets))
    }
}
