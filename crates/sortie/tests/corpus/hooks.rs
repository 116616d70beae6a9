//! A device whose compute pipelines are written down as the driver is given them, by whichever path they come.
//!
//! Its table of functions, which wgpu and native replays both call through, has functions of ours in it that note what they are given and pass
//! it on.
#![expect(unsafe_code, reason = "stands between wgpu and the driver")]

use std::{
    collections::HashMap,
    ffi::CStr,
    slice,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use ash::vk::{self, Handle};
use sortie::{
    Device, DeviceOptions,
    policy::{Split, SubmitPolicy},
    wgpu::{self, hal},
};

/// A compute pipeline as the driver was asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) words: Vec<u32>,
    pub(crate) entry: String,
    pub(crate) stage_flags: vk::PipelineShaderStageCreateFlags,
    pub(crate) flags: vk::PipelineCreateFlags,
    pub(crate) specialised: bool,
    pub(crate) layout: Layout,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// By group: binding, type, count and stages of each.
    pub(crate) sets: Vec<Vec<(u32, vk::DescriptorType, u32, vk::ShaderStageFlags)>>,
    /// Stages, offset and bytes of immediates.
    pub(crate) immediates: Vec<(vk::ShaderStageFlags, u32, u32)>,
}

/// What was asked for on this device since the last call.
pub(crate) fn taken(of: &Device) -> Vec<Asked> {
    let mut all = state();
    all.get_mut(&handle(of)).map(|device| std::mem::take(&mut device.asked)).unwrap_or_default()
}

/// A guest on a wgpu device with the features and limits of another, and our functions in its table.
pub(crate) fn hooked(like: &Device) -> Device {
    let (device, _) = like.wgpu().expect("a Vulkan driver");
    let (info, features, limits) = (device.adapter_info(), device.features(), device.limits());
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
    descriptor.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == info.name).expect("the same adapter");
    let described = wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: limits.clone(),
        ..wgpu::DeviceDescriptor::default()
    };
    // SAFETY: the device is made as wgpu-hal makes its own, with what it says that it needs, and belongs to wgpu from then on.
    let (device, queue) = unsafe {
        let hal = adapter.as_hal::<hal::api::Vulkan>().expect("a Vulkan adapter");
        let extensions = hal.required_device_extensions(features);
        let mut enabled = hal.physical_device_features(&extensions, features);
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        let info = enabled.add_to_device_create(info);
        let raw = hal.shared_instance().raw_instance();
        let device = raw.create_device(hal.raw_physical_device(), &info, None).expect("a device");
        let hints = wgpu::MemoryHints::Performance;
        let open = hal.device_from_raw(tapped(&device), None, &extensions, features, &limits, &hints, 0, 0);
        let open = open.expect("wgpu takes the device");
        drop(hal);
        adapter.create_device_from_hal(open, &described).expect("wgpu takes the device")
    };
    // Uncut and undivided: a freeze compiles what was recorded.
    let policy = Some(SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
    let guest = Device::from_wgpu_with(device, queue, DeviceOptions::default().with_policy(policy));
    let guest = guest.expect("a guest");
    // wgpu's own, which check indirect grids.
    taken(&guest);
    guest
}

/// The same device with our functions in its table.
fn tapped(device: &ash::Device) -> ash::Device {
    let theirs = device.fp_v1_0().clone();
    let ours = ash::DeviceFnV1_0 {
        create_shader_module,
        create_descriptor_set_layout,
        create_pipeline_layout,
        create_compute_pipelines,
        ..theirs.clone()
    };
    state().insert(device.handle().as_raw(), Tap::new(theirs));
    ash::Device::from_parts_1_3(
        device.handle(),
        ours,
        device.fp_v1_1().clone(),
        device.fp_v1_2().clone(),
        device.fp_v1_3().clone(),
    )
}

/// What is known of a device.
struct Tap {
    theirs: ash::DeviceFnV1_0,
    modules: HashMap<u64, Vec<u32>>,
    sets: HashMap<u64, Vec<(u32, vk::DescriptorType, u32, vk::ShaderStageFlags)>>,
    layouts: HashMap<u64, Layout>,
    asked: Vec<Asked>,
}

impl Tap {
    fn new(theirs: ash::DeviceFnV1_0) -> Self {
        let (modules, sets, layouts, asked) = Default::default();
        Self { theirs, modules, sets, layouts, asked }
    }
}

fn state() -> MutexGuard<'static, HashMap<u64, Tap>> {
    static TAPS: LazyLock<Mutex<HashMap<u64, Tap>>> = LazyLock::new(Mutex::default);
    TAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(of: &Device) -> u64 {
    let (device, _) = of.wgpu().expect("a Vulkan driver");
    // SAFETY: only its number is looked at.
    unsafe { device.as_hal::<hal::api::Vulkan>() }.expect("a Vulkan device").raw_device().handle().as_raw()
}

fn theirs(device: vk::Device) -> ash::DeviceFnV1_0 {
    state()[&device.as_raw()].theirs.clone()
}

/// Notes something about a device.
fn note(device: vk::Device, change: impl FnOnce(&mut Tap)) {
    if let Some(tap) = state().get_mut(&device.as_raw()) {
        change(tap);
    }
}

/// SAFETY: as Vulkan says of an array.
unsafe fn all<'a, T>(items: *const T, count: u32) -> &'a [T] {
    match count {
        0 => &[],
        count => unsafe { slice::from_raw_parts(items, count as usize) },
    }
}

unsafe extern "system" fn create_shader_module(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: the arguments are the caller's, as Vulkan wants them.
    unsafe {
        let result = (theirs(device).create_shader_module)(device, info, allocator, made);
        let words = slice::from_raw_parts((*info).p_code, (*info).code_size / 4).to_vec();
        note(device, |tap| drop(tap.modules.insert((*made).as_raw(), words)));
        result
    }
}

unsafe extern "system" fn create_descriptor_set_layout(
    device: vk::Device,
    info: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::DescriptorSetLayout,
) -> vk::Result {
    // SAFETY: the arguments are the caller's, as Vulkan wants them.
    unsafe {
        let result = (theirs(device).create_descriptor_set_layout)(device, info, allocator, made);
        let bindings = all((*info).p_bindings, (*info).binding_count).iter();
        let bindings =
            bindings.map(|one| (one.binding, one.descriptor_type, one.descriptor_count, one.stage_flags)).collect();
        note(device, |tap| drop(tap.sets.insert((*made).as_raw(), bindings)));
        result
    }
}

unsafe extern "system" fn create_pipeline_layout(
    device: vk::Device,
    info: *const vk::PipelineLayoutCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::PipelineLayout,
) -> vk::Result {
    // SAFETY: the arguments are the caller's, as Vulkan wants them.
    unsafe {
        let result = (theirs(device).create_pipeline_layout)(device, info, allocator, made);
        let sets = all((*info).p_set_layouts, (*info).set_layout_count);
        let ranges = all((*info).p_push_constant_ranges, (*info).push_constant_range_count).iter();
        let immediates = ranges.map(|range| (range.stage_flags, range.offset, range.size)).collect();
        note(device, |tap| {
            let sets = sets.iter().map(|set| tap.sets[&set.as_raw()].clone()).collect();
            tap.layouts.insert((*made).as_raw(), Layout { sets, immediates });
        });
        result
    }
}

unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the arguments are the caller's, as Vulkan wants them.
    unsafe {
        for info in all(infos, count) {
            let stage = info.stage;
            note(device, |tap| {
                let asked = Asked {
                    words: tap.modules[&stage.module.as_raw()].clone(),
                    entry: CStr::from_ptr(stage.p_name).to_string_lossy().into_owned(),
                    stage_flags: stage.flags,
                    flags: info.flags,
                    specialised: !stage.p_specialization_info.is_null(),
                    layout: tap.layouts[&info.layout.as_raw()].clone(),
                };
                tap.asked.push(asked);
            });
        }
        (theirs(device).create_compute_pipelines)(device, cache, count, infos, allocator, made)
    }
}
