//! Vulkan pipelines of kernels. wgpu does not expose its own, so a native replay has its own, compiled from the same
//! SPIR-V for an equal layout.
//!
//! The only difference from wgpu's is the pipeline cache, whose handle wgpu does not expose either. Recordings keep the
//! pipelines they use, and a later recording uses them too, so that none is compiled twice.

use std::{
    ffi::CString,
    sync::{Arc, Weak},
};

use ash::vk;
use naga::back::spv;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{refused, spirv_target::SpirvTarget};
use crate::{
    backend::wgpu::{GroupLayout, Hidden, WgpuCompiler, WgpuKernel},
    error::{Error, Result},
    exit,
    kernel::{BindingKind, Kernel, Variant},
};

/// Stages that immediates are declared for: all of them, as in wgpu.
pub(super) const IMMEDIATE_STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::ALL;

/// The pipeline of a kernel variant. Everything in it is destroyed with it.
pub(super) struct VulkanPipeline {
    device: ash::Device,
    pub(super) raw: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    /// By group number.
    pub(super) sets: Vec<vk::DescriptorSetLayout>,
    pub(super) hidden: Option<Hidden>,
    /// Immediates are set natively.
    pub(super) immediates: bool,
}

/// A kernel by its id, and its variant.
pub(super) type PipelineKey = (u64, Variant);

/// The pipelines of a recording.
pub(super) type Pipelines = FxHashMap<PipelineKey, Arc<VulkanPipeline>>;

/// The pipelines that recordings of a device use.
#[derive(Default)]
pub(super) struct KnownPipelines(Mutex<FxHashMap<PipelineKey, Weak<VulkanPipeline>>>);

impl KnownPipelines {
    /// The pipeline, made unless another recording uses it.
    pub(super) fn get(
        &self,
        key: PipelineKey,
        make: impl FnOnce() -> Result<VulkanPipeline>,
    ) -> Result<Arc<VulkanPipeline>> {
        if let Some(known) = self.0.lock().get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let mut cache = self.0.lock();
        cache.retain(|_, pipeline| pipeline.strong_count() > 0);
        cache.insert(key, Arc::downgrade(&made));
        Ok(made)
    }
}

impl VulkanPipeline {
    /// Compiles a variant of a kernel that wgpu has compiled before.
    pub(super) fn new(
        device: &ash::Device,
        target: &SpirvTarget,
        compiler: &WgpuCompiler,
        kernel: &Kernel,
        variant: Variant,
    ) -> Result<Self> {
        let own = WgpuKernel::of(kernel)?;
        let own_hidden = compiler.hidden(kernel, variant.immediates, variant.wrapped)?;
        let groups = own.groups().iter().map(|group| (group.number, &group.layout));
        let hidden = own_hidden.iter().map(|hidden| (hidden.number, &hidden.layout));
        let numbered: FxHashMap<u32, &Arc<GroupLayout>> = groups.chain(hidden).collect();
        let count = numbered.keys().max().map_or(0, |last| last + 1);
        let size = own.native_immediate_bytes(variant.immediates).next_multiple_of(4);
        let options = target.of_kernel(kernel.checks(), bindings(&numbered));
        // Complete or not, dropping it destroys the objects created so far.
        let mut made = Self {
            device: device.clone(),
            raw: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            sets: Vec::new(),
            hidden: None,
            immediates: size > 0,
        };
        for number in 0..count {
            let signature = numbered.get(&number).map_or(&[][..], |layout| &layout.signature);
            let bindings: Vec<_> = (0..)
                .zip(signature)
                .map(|(binding, one)| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(binding)
                        .descriptor_type(descriptor(one.kind, one.dynamic))
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is alive.
            made.sets.push(unsafe { device.create_descriptor_set_layout(&info, None) }.map_err(refused)?);
        }
        let ranges = [vk::PushConstantRange { stage_flags: IMMEDIATE_STAGES, offset: 0, size }];
        let ranges = if made.immediates { &ranges[..] } else { &[] };
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&made.sets).push_constant_ranges(ranges);
        // SAFETY: the set layouts belong to this device.
        made.layout = unsafe { device.create_pipeline_layout(&info, None) }.map_err(refused)?;

        let words = compiler.spirv(kernel, variant, &options)?;
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        let entry =
            CString::new(kernel.entry()).map_err(|_| Error::internal("an entry point with a zero in its name"))?;
        // SAFETY: naga wrote the module from a validated one. It is destroyed once the pipeline exists.
        made.raw = unsafe {
            let module = device.create_shader_module(&info, None).map_err(refused)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .flags(target.flags)
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(&entry);
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(made.layout);
            let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            device.destroy_shader_module(module, None);
            pipelines.map_err(|(_, error)| refused(error))?[0]
        };
        made.hidden = own_hidden;
        Ok(made)
    }
}

impl Drop for VulkanPipeline {
    fn drop(&mut self) {
        let _inside = exit::enter();
        // SAFETY: all objects were created by this device. The owner keeps the device alive, and keeps this while
        // commands that use it may run.
        unsafe {
            self.device.destroy_pipeline(self.raw, None);
            self.device.destroy_pipeline_layout(self.layout, None);
            self.sets.iter().for_each(|layout| self.device.destroy_descriptor_set_layout(*layout, None));
        }
    }
}

/// wgpu renumbers the bindings of a group without gaps, in the order of their numbers. Signatures are in that order.
fn bindings(numbered: &FxHashMap<u32, &Arc<GroupLayout>>) -> spv::BindingMap {
    let each = numbered.iter().flat_map(|(group, layout)| {
        (0..).zip(&layout.signature).map(|(binding, one)| {
            let from = naga::ResourceBinding { group: *group, binding: one.binding };
            (from, spv::BindingInfo { descriptor_set: *group, binding, binding_array_size: None })
        })
    });
    each.collect()
}

pub(super) fn descriptor(kind: BindingKind, dynamic: bool) -> vk::DescriptorType {
    match (kind, dynamic) {
        (BindingKind::Storage { .. }, false) => vk::DescriptorType::STORAGE_BUFFER,
        (BindingKind::Storage { .. }, true) => vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
        (BindingKind::Uniform, false) => vk::DescriptorType::UNIFORM_BUFFER,
        (BindingKind::Uniform, true) => vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
    }
}
