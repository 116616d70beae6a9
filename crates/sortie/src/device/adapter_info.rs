//! Converts wgpu's adapter info to [`DeviceInfo`].

use crate::info::{DeviceInfo, DeviceKind, Limits};

/// Describes an adapter, or a device that was opened with these limits and features.
pub(super) fn describe(info: &wgpu::AdapterInfo, limits: &wgpu::Limits, features: wgpu::Features) -> DeviceInfo {
    let driver = [info.driver.trim(), info.driver_info.trim()].join(" ").trim().to_owned();
    DeviceInfo {
        name: if info.name.is_empty() { "unnamed".into() } else { info.name.clone() },
        backend: match info.backend {
            wgpu::Backend::Vulkan => "vulkan",
            wgpu::Backend::Metal => "metal",
            wgpu::Backend::Dx12 => "dx12",
            wgpu::Backend::Gl => "gl",
            wgpu::Backend::BrowserWebGpu => "webgpu",
            wgpu::Backend::Noop => "noop",
        },
        driver,
        kind: match (info.backend, info.device_type) {
            (wgpu::Backend::Noop, _) => DeviceKind::Noop,
            (_, wgpu::DeviceType::DiscreteGpu) => DeviceKind::Discrete,
            (_, wgpu::DeviceType::IntegratedGpu) => DeviceKind::Integrated,
            (_, wgpu::DeviceType::VirtualGpu) => DeviceKind::Virtual,
            (_, wgpu::DeviceType::Cpu) => DeviceKind::Software,
            // Mesa's GL front end does not report it, but its software rasterisers are known by name.
            (_, wgpu::DeviceType::Other) if is_software(&info.name) => DeviceKind::Software,
            (_, wgpu::DeviceType::Other) => DeviceKind::Other,
        },
        limits: to_limits(info, limits, features),
    }
}

fn to_limits(info: &wgpu::AdapterInfo, limits: &wgpu::Limits, features: wgpu::Features) -> Limits {
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    Limits {
        buffer_bytes: limits.max_buffer_size & !3,
        binding_bytes: limits.max_storage_buffer_binding_size,
        uniform_bytes: limits.max_uniform_buffer_binding_size,
        storage_buffers: limits.max_storage_buffers_per_shader_stage,
        uniform_buffers: limits.max_uniform_buffers_per_shader_stage,
        bind_groups: limits.max_bind_groups,
        binding_numbers: limits.max_bindings_per_bind_group,
        workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        workgroup_size: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        // Some adapters report more and then misbehave. The WebGPU minimum is enough, since larger grids are folded.
        groups: limits.max_compute_workgroups_per_dimension.min(65_535),
        immediate_bytes: if features.contains(wgpu::Features::IMMEDIATES) { limits.max_immediate_size } else { 0 },
        slice_alignment: limits
            .min_storage_buffer_offset_alignment
            .max(limits.min_uniform_buffer_offset_alignment)
            .max(4),
        subgroup_min_size: if subgroups { info.subgroup_min_size } else { 0 },
        subgroup_max_size: if subgroups { info.subgroup_max_size } else { 0 },
    }
}

fn is_software(name: &str) -> bool {
    let name = name.to_lowercase();
    ["llvmpipe", "softpipe", "swiftshader", "swrast", "software"].iter().any(|known| name.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_every_webgpu_device_are_the_defaults_of_wgpu() {
        let info = wgpu::AdapterInfo::new(wgpu::DeviceType::Other, wgpu::Backend::Noop);
        assert_eq!(to_limits(&info, &wgpu::Limits::defaults(), wgpu::Features::empty()), Limits::WEBGPU);
    }
}
