//! What a device is and what it can hold.

use std::fmt;

/// What kind of processor a device runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A graphics card with memory of its own.
    Discrete,
    /// A GPU that shares memory with the CPU.
    Integrated,
    /// A GPU handed into a virtual machine.
    Virtual,
    /// Hardware that its driver does not describe.
    Other,
    /// A driver that runs on the CPU, such as lavapipe or SwiftShader.
    Software,
    /// wgpu's device that checks everything and runs nothing.
    Noop,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Other => "other",
            Self::Software => "software",
            Self::Noop => "noop",
        })
    }
}

/// Name, driver and limits of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The adapter's name, such as `llvmpipe (LLVM 15.0.6, 256 bits)`.
    pub name: String,
    /// wgpu's backend: `vulkan`, `metal`, `dx12`, `gl` or `noop`.
    pub backend: &'static str,
    /// The driver's name and version, as it gives them.
    pub driver: String,
    /// What it runs on.
    pub kind: DeviceKind,
    /// What it can hold.
    pub limits: Limits,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.kind)
    }
}

/// The limits that matter to recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most bytes in one buffer.
    pub buffer_bytes: u64,
    /// Most bytes of one storage binding.
    pub binding_bytes: u64,
    /// Most bytes of one uniform binding.
    pub uniform_bytes: u64,
    /// Most storage buffers of one kernel.
    pub storage_buffers: u32,
    /// Most bind groups of one kernel.
    pub bind_groups: u32,
    /// Most invocations in one workgroup.
    pub workgroup_invocations: u32,
    /// Most invocations in each dimension of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Most bytes of `var<workgroup>` memory.
    pub workgroup_bytes: u32,
    /// Most groups in one dimension of a grid before it is folded.
    pub groups: u32,
    /// Bytes of native immediates; 0 where immediates go through a parameter buffer.
    pub immediate_bytes: u32,
    /// What the byte offset of a bound slice must be a multiple of.
    pub slice_alignment: u32,
}

impl DeviceInfo {
    pub(crate) fn new(info: &wgpu::AdapterInfo, limits: &wgpu::Limits, features: wgpu::Features) -> Self {
        let driver = [info.driver.trim(), info.driver_info.trim()].join(" ").trim().to_owned();
        Self {
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
                // Mesa's GL front end does not say so, but its software rasterisers are known by name.
                (_, wgpu::DeviceType::Other) if is_software(&info.name) => DeviceKind::Software,
                (_, wgpu::DeviceType::Other) => DeviceKind::Other,
            },
            limits: Limits::new(limits, features),
        }
    }
}

fn is_software(name: &str) -> bool {
    let name = name.to_lowercase();
    ["llvmpipe", "softpipe", "swiftshader", "swrast", "software"].iter().any(|known| name.contains(known))
}

impl Limits {
    fn new(limits: &wgpu::Limits, features: wgpu::Features) -> Self {
        Self {
            buffer_bytes: limits.max_buffer_size & !3,
            binding_bytes: limits.max_storage_buffer_binding_size,
            uniform_bytes: limits.max_uniform_buffer_binding_size,
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            bind_groups: limits.max_bind_groups,
            workgroup_invocations: limits.max_compute_invocations_per_workgroup,
            workgroup_size: [
                limits.max_compute_workgroup_size_x,
                limits.max_compute_workgroup_size_y,
                limits.max_compute_workgroup_size_z,
            ],
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            // Some adapters claim more and then misbehave; what WebGPU guarantees is enough, since larger grids are folded.
            groups: limits.max_compute_workgroups_per_dimension.min(65_535),
            immediate_bytes: if features.contains(wgpu::Features::IMMEDIATES) { limits.max_immediate_size } else { 0 },
            slice_alignment: limits
                .min_storage_buffer_offset_alignment
                .max(limits.min_uniform_buffer_offset_alignment)
                .max(4),
        }
    }
}
