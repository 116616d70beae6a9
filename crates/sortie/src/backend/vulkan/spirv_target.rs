//! The SPIR-V target of kernels: the options that wgpu-hal gives naga for this device.
//!
//! Both paths give the driver the same words, so a native replay runs the same code as an encoded run. wgpu-hal does
//! not expose its options, so each one is decided again here by the same rule (`device_from_raw` in `vulkan/adapter.rs`
//! of wgpu-hal 30), and changed as it changes them for kernels without checks (`compile_stage` in `vulkan/device.rs`).
//! The test `corpus` compares the words of both paths, kernel by kernel.

use ash::vk;
use naga::{
    back::{TaskDispatchLimits, spv},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
};
use wgpu::hal::vulkan::Device;

use crate::kernel::Checks;

/// Qualcomm's PCI vendor id.
const QUALCOMM: u32 = 0x5143;

pub(super) struct SpirvTarget {
    options: spv::Options<'static>,
    pub(super) flags: vk::PipelineShaderStageCreateFlags,
}

impl SpirvTarget {
    /// The options for a kernel with these checks and bindings.
    pub(super) fn of_kernel(&self, checks: Checks, binding_map: spv::BindingMap) -> spv::Options<'static> {
        let mut options = spv::Options { binding_map, ..self.options.clone() };
        if !checks.bounds {
            options.bounds_check_policies = BoundsCheckPolicies {
                index: BoundsCheckPolicy::Unchecked,
                buffer: BoundsCheckPolicy::Unchecked,
                image_load: BoundsCheckPolicy::Unchecked,
                binding_array: BoundsCheckPolicy::Unchecked,
            };
        }
        if !checks.zeroed {
            options.zero_initialize_workgroup_memory = spv::ZeroInitializeWorkgroupMemoryMode::None;
        }
        options.force_loop_bounding &= checks.loops;
        options.emit_int_div_checks = checks.divisions;
        options
    }

    pub(super) fn of(hal: &Device, gpu: &wgpu::Device) -> Self {
        let (features, supported) = (gpu.features(), Supported::by(hal));
        let unchecked_if = |robust| if robust { BoundsCheckPolicy::Unchecked } else { BoundsCheckPolicy::Restrict };
        let options = spv::Options {
            lang_version: match supported.version {
                ..vk::API_VERSION_1_1 => (1, 0),
                vk::API_VERSION_1_1..vk::API_VERSION_1_2 => (1, 3),
                vk::API_VERSION_1_2..vk::API_VERSION_1_3 => (1, 5),
                vk::API_VERSION_1_3.. => (1, 6),
            },
            flags: flags(hal, &supported),
            fake_missing_bindings: false,
            // Set for each kernel.
            binding_map: spv::BindingMap::default(),
            capabilities: Some(capabilities(features, &supported).into_iter().collect()),
            bounds_check_policies: BoundsCheckPolicies {
                index: BoundsCheckPolicy::Restrict,
                buffer: unchecked_if(supported.robust_buffers),
                image_load: unchecked_if(supported.robust_images),
                binding_array: BoundsCheckPolicy::Unchecked,
            },
            zero_initialize_workgroup_memory: match supported.zeroed_workgroups {
                true => spv::ZeroInitializeWorkgroupMemoryMode::Native,
                false => spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
            },
            force_loop_bounding: true,
            ray_query_initialization_tracking: true,
            trace_ray_argument_validation: true,
            use_storage_input_output_16: features.contains(wgpu::Features::SHADER_F16) && supported.io16,
            // wgpu sets it for sources in text; ours are modules.
            debug_info: None,
            task_dispatch_limits: Some(TaskDispatchLimits {
                max_mesh_workgroups_per_dim: gpu.limits().max_mesh_workgroups_per_dimension,
                max_mesh_workgroups_total: gpu.limits().max_mesh_workgroup_total_count,
            }),
            mesh_shader_primitive_indices_clamp: true,
            emit_int_div_checks: true,
        };
        let flags = match features.contains(wgpu::Features::SUBGROUP) {
            true => vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE,
            false => vk::PipelineShaderStageCreateFlags::empty(),
        };
        Self { options, flags }
    }
}

/// Features of the physical device that naga's options depend on.
#[derive(Default)]
struct Supported {
    version: u32,
    vendor: u32,
    cube_arrays: bool,
    sample_shading: bool,
    robust_buffers: bool,
    robust_images: bool,
    zeroed_workgroups: bool,
    dot_products: bool,
    int8: bool,
    io16: bool,
}

impl Supported {
    fn by(hal: &Device) -> Self {
        let (shared, physical) = (hal.shared_instance(), hal.raw_physical_device());
        let instance = shared.raw_instance();
        // SAFETY: the physical device belongs to this instance.
        let (properties, extensions) = unsafe {
            let extensions = instance.enumerate_device_extension_properties(physical).unwrap_or_default();
            (instance.get_physical_device_properties(physical), extensions)
        };
        let version = properties.api_version;
        let has = |name| extensions.iter().any(|one| one.extension_name_as_c_str() == Ok(name));
        // Enabled, not only supported: wgpu does not enable it on drivers whose support is broken.
        let has_robustness = hal.enabled_device_extensions().contains(&ash::ext::robustness2::NAME);
        let has_image_robustness = has(ash::ext::image_robustness::NAME);
        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut images = vk::PhysicalDeviceImageRobustnessFeatures::default();
        let mut zeroed = vk::PhysicalDeviceZeroInitializeWorkgroupMemoryFeatures::default();
        let mut dots = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        let mut small = vk::PhysicalDeviceShaderFloat16Int8Features::default();
        let mut storage = vk::PhysicalDevice16BitStorageFeatures::default();
        let mut asked = vk::PhysicalDeviceFeatures2::default();
        if has_robustness {
            asked = asked.push_next(&mut robustness);
        }
        if has_image_robustness {
            asked = asked.push_next(&mut images);
        }
        if version >= vk::API_VERSION_1_3 || has(ash::khr::zero_initialize_workgroup_memory::NAME) {
            asked = asked.push_next(&mut zeroed);
        }
        if version >= vk::API_VERSION_1_3 || has(ash::khr::shader_integer_dot_product::NAME) {
            asked = asked.push_next(&mut dots);
        }
        if version >= vk::API_VERSION_1_2 || has(ash::khr::shader_float16_int8::NAME) {
            asked = asked.push_next(&mut small);
        }
        if has(ash::khr::_16bit_storage::NAME) {
            asked = asked.push_next(&mut storage);
        }
        // SAFETY: physical device and function belong to this instance, and the structures have the types they declare.
        unsafe {
            if shared.instance_api_version() >= vk::API_VERSION_1_1 {
                instance.get_physical_device_features2(physical, &mut asked);
            } else if shared.extensions().contains(&ash::khr::get_physical_device_properties2::NAME) {
                let extension = ash::khr::get_physical_device_properties2::Instance::new(shared.entry(), instance);
                extension.get_physical_device_features2(physical, &mut asked);
            }
        }
        let core = asked.features;
        Self {
            version,
            vendor: properties.vendor_id,
            cube_arrays: core.image_cube_array == vk::TRUE,
            sample_shading: core.sample_rate_shading == vk::TRUE,
            robust_buffers: robustness.robust_buffer_access2 == vk::TRUE,
            robust_images: match has_robustness {
                true => robustness.robust_image_access2 == vk::TRUE,
                false => images.robust_image_access == vk::TRUE,
            },
            zeroed_workgroups: zeroed.shader_zero_initialize_workgroup_memory == vk::TRUE,
            dot_products: dots.shader_integer_dot_product == vk::TRUE,
            int8: small.shader_int8 == vk::TRUE,
            io16: storage.storage_input_output16 == vk::TRUE,
        }
    }
}

fn flags(hal: &Device, supported: &Supported) -> spv::WriterFlags {
    let instance = hal.shared_instance();
    // wgpu-hal enables the extension only if its instance has the flag `DEBUG`.
    let debug = instance.extensions().contains(&ash::ext::debug_utils::NAME);
    let prints = instance.instance_api_version() >= vk::API_VERSION_1_3
        || hal.enabled_device_extensions().contains(&ash::khr::shader_non_semantic_info::NAME);
    let mut flags = spv::WriterFlags::FORCE_POINT_SIZE;
    flags.set(spv::WriterFlags::DEBUG, debug);
    flags.set(spv::WriterFlags::LABEL_VARYINGS, supported.vendor != QUALCOMM);
    let failures =
        spv::WriterFlags::PRINT_ON_RAY_QUERY_INITIALIZATION_FAIL | spv::WriterFlags::PRINT_ON_TRACE_RAYS_FAIL;
    flags.set(failures, debug && prints);
    flags
}

/// The SPIR-V capabilities that naga may use. Without one, naga writes other code or refuses the module.
fn capabilities(features: wgpu::Features, supported: &Supported) -> Vec<spv::Capability> {
    use spv::Capability as C;
    use wgpu::Features as F;

    const ALWAYS: &[C] = &[
        C::Shader,
        C::Matrix,
        C::Sampled1D,
        C::Image1D,
        C::ImageQuery,
        C::DerivativeControl,
        C::StorageImageExtendedFormats,
    ];
    const SUBGROUPS: &[C] = &[
        C::GroupNonUniform,
        C::GroupNonUniformVote,
        C::GroupNonUniformArithmetic,
        C::GroupNonUniformBallot,
        C::GroupNonUniformShuffle,
        C::GroupNonUniformShuffleRelative,
        C::GroupNonUniformQuad,
    ];
    const DOT_PRODUCTS: &[C] =
        &[C::DotProductInputAllKHR, C::DotProductInput4x8BitKHR, C::DotProductInput4x8BitPackedKHR, C::DotProductKHR];
    // Any one of the features enables the capabilities.
    let by_feature: [(F, &[C]); 18] = [
        (F::MULTIVIEW, &[C::MultiView]),
        (F::PRIMITIVE_INDEX, &[C::Geometry]),
        (F::SUBGROUP.union(F::SUBGROUP_VERTEX), SUBGROUPS),
        (
            F::SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING
                .union(F::STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING)
                .union(F::UNIFORM_BUFFER_BINDING_ARRAYS),
            &[C::ShaderNonUniform],
        ),
        (F::BGRA8UNORM_STORAGE, &[C::StorageImageWriteWithoutFormat]),
        (F::EXPERIMENTAL_RAY_QUERY, &[C::RayQueryKHR]),
        (F::SHADER_INT64, &[C::Int64]),
        (F::SHADER_F16, &[C::Float16]),
        (F::SHADER_I16, &[C::Int16]),
        (
            F::SHADER_INT64_ATOMIC_ALL_OPS.union(F::SHADER_INT64_ATOMIC_MIN_MAX).union(F::TEXTURE_INT64_ATOMIC),
            &[C::Int64Atomics],
        ),
        (F::TEXTURE_INT64_ATOMIC, &[C::Int64ImageEXT]),
        (F::SHADER_FLOAT32_ATOMIC, &[C::AtomicFloat32AddEXT]),
        (F::CLIP_DISTANCES, &[C::ClipDistance]),
        (F::SHADER_BARYCENTRICS.union(F::SHADER_PER_VERTEX), &[C::FragmentBarycentricKHR]),
        (F::SHADER_DRAW_INDEX, &[C::DrawParameters]),
        (F::EXPERIMENTAL_RAY_TRACING_PIPELINES, &[C::RayTracingKHR]),
        (F::EXPERIMENTAL_RAY_HIT_VERTEX_RETURN, &[C::RayQueryPositionFetchKHR]),
        (F::EXPERIMENTAL_MESH_SHADER, &[C::MeshShadingEXT]),
    ];
    let by_feature = by_feature.into_iter().map(|(any, brings)| (features.intersects(any), brings));
    let others: [(bool, &[C]); 6] = [
        (true, ALWAYS),
        (features.contains(F::EXPERIMENTAL_COOPERATIVE_MATRIX), &[C::CooperativeMatrixKHR, C::VulkanMemoryModel]),
        (supported.cube_arrays, &[C::SampledCubeArray]),
        (supported.sample_shading, &[C::SampleRateShading]),
        (supported.dot_products, DOT_PRODUCTS),
        (supported.int8, &[C::Int8]),
    ];
    by_feature.chain(others).filter(|(has, _)| *has).flat_map(|(_, brings)| brings.iter().copied()).collect()
}
