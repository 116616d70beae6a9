//! Name, kind and limits of a device: plain data, the same for every backend.

use std::{fmt, sync::LazyLock};

use sortie_cpu::SUBGROUP_SIZE;

/// The kind of processor that a device runs on.
///
/// ```
/// use sortie::{Device, device::DeviceKind};
///
/// let device = Device::open()?;
/// if matches!(device.info().kind, DeviceKind::Cpu | DeviceKind::Software) {
///     println!("no GPU here: {}", device.info());
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A graphics card with its own memory.
    Discrete,
    /// A GPU that shares memory with the CPU.
    Integrated,
    /// A GPU passed through to a virtual machine.
    Virtual,
    /// Hardware that its driver does not describe.
    Other,
    /// The built-in CPU device.
    Cpu,
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
            Self::Cpu => "built-in",
            Self::Software => "software",
            Self::Noop => "noop",
        })
    }
}

/// Name, driver and limits of a device.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let info = device.info();
/// assert_eq!((info.backend, info.kind.to_string()), ("cpu", "built-in".into()));
/// println!("{info}: {}", info.driver); // sortie CPU (8 threads) (cpu, built-in): sortie 0.1.0
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The adapter's name, such as `llvmpipe (LLVM 15.0.6, 256 bits)`.
    pub name: String,
    /// wgpu's backend: `vulkan`, `metal`, `dx12`, `gl` or `noop`; `cpu` for the built-in CPU, which is not wgpu's.
    pub backend: &'static str,
    /// The driver's name and version, as it reports them.
    pub driver: String,
    /// The kind of processor.
    pub kind: DeviceKind,
    /// Its limits.
    pub limits: Limits,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.kind)
    }
}

/// The limits that matter to recording.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let limits = device.info().limits;
/// let rows = 1 << 20;
/// assert!(rows * 16 <= limits.binding_bytes);
/// assert_eq!(limits.workgroup_invocations, 1024);
/// # Ok::<(), sortie::Error>(())
/// ```
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
    /// Most uniform buffers of one kernel.
    pub uniform_buffers: u32,
    /// Most bind groups of one kernel.
    pub bind_groups: u32,
    /// Every `@binding` number is less than this.
    pub binding_numbers: u32,
    /// Most invocations in one workgroup.
    pub workgroup_invocations: u32,
    /// Most invocations in each dimension of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Most bytes of `var<workgroup>` memory.
    pub workgroup_bytes: u32,
    /// Most groups in one dimension of a grid before it is folded.
    pub groups: u32,
    /// Bytes of native immediates; 0 if immediates go through a parameter buffer.
    pub immediate_bytes: u32,
    /// The byte offset of a bound slice must be a multiple of this.
    pub slice_alignment: u32,
    /// Fewest invocations in a subgroup, those at the end of a workgroup excepted; 0 if kernels cannot use subgroups.
    pub subgroup_min_size: u32,
    /// Most invocations in a subgroup; 0 if kernels cannot use subgroups.
    pub subgroup_max_size: u32,
}

impl DeviceInfo {
    /// The built-in CPU with this many threads.
    pub(crate) fn cpu(threads: usize) -> Self {
        Self {
            name: format!("{CPU_NAME} ({threads} thread{})", if threads == 1 { "" } else { "s" }),
            backend: "cpu",
            driver: concat!("sortie ", env!("CARGO_PKG_VERSION")).into(),
            kind: DeviceKind::Cpu,
            limits: Limits::cpu(),
        }
    }

    /// The same device with at most the limits that every WebGPU device has.
    pub(crate) fn portable(mut self) -> Self {
        self.limits = self.limits.portable();
        self
    }
}

/// The name of the built-in CPU, before the number of its threads.
pub(crate) const CPU_NAME: &str = "sortie CPU";

impl Limits {
    /// The limits that every WebGPU device has. WebGPU has no immediates.
    pub(crate) const WEBGPU: Self = Self {
        buffer_bytes: 256 << 20,
        binding_bytes: 128 << 20,
        uniform_bytes: 64 << 10,
        storage_buffers: 8,
        uniform_buffers: 12,
        bind_groups: 4,
        binding_numbers: 1000,
        workgroup_invocations: 256,
        workgroup_size: [256, 256, 64],
        workgroup_bytes: 16 << 10,
        groups: 65_535,
        immediate_bytes: 0,
        slice_alignment: 256,
        subgroup_min_size: 0,
        subgroup_max_size: 0,
    };

    /// Kernels address memory as words with 32-bit indices. All other limits are as large as kernels for GPUs may need.
    fn cpu() -> Self {
        const BINDING: u64 = (1 << 32) - 4;
        Self {
            buffer_bytes: memory_bytes(),
            binding_bytes: BINDING,
            uniform_bytes: BINDING,
            storage_buffers: 32,
            uniform_buffers: 32,
            bind_groups: 8,
            binding_numbers: u32::MAX,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 64],
            workgroup_bytes: 64 << 10,
            groups: u32::MAX,
            immediate_bytes: 256,
            slice_alignment: 4,
            subgroup_min_size: SUBGROUP_SIZE,
            subgroup_max_size: SUBGROUP_SIZE,
        }
    }

    /// The same, but at most the limits of every WebGPU device. Immediates then go through a parameter buffer.
    fn portable(self) -> Self {
        let least = Self::WEBGPU;
        let [x, y, z] = [0, 1, 2].map(|axis| self.workgroup_size[axis].min(least.workgroup_size[axis]));
        Self {
            buffer_bytes: self.buffer_bytes.min(least.buffer_bytes),
            binding_bytes: self.binding_bytes.min(least.binding_bytes),
            uniform_bytes: self.uniform_bytes.min(least.uniform_bytes),
            storage_buffers: self.storage_buffers.min(least.storage_buffers),
            uniform_buffers: self.uniform_buffers.min(least.uniform_buffers),
            bind_groups: self.bind_groups.min(least.bind_groups),
            binding_numbers: self.binding_numbers.min(least.binding_numbers),
            workgroup_invocations: self.workgroup_invocations.min(least.workgroup_invocations),
            workgroup_size: [x, y, z],
            workgroup_bytes: self.workgroup_bytes.min(least.workgroup_bytes),
            groups: self.groups.min(least.groups),
            immediate_bytes: 0,
            slice_alignment: self.slice_alignment.max(least.slice_alignment),
            subgroup_min_size: 0,
            subgroup_max_size: 0,
        }
    }
}

/// The total memory of the machine if known, in whole words.
fn memory_bytes() -> u64 {
    static BYTES: LazyLock<u64> = LazyLock::new(|| {
        // On other systems only the allocator limits it.
        let known = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_kib(&text));
        known.and_then(|kib| kib.checked_mul(1024)).unwrap_or(isize::MAX as u64) & !3
    });
    *BYTES
}

fn total_kib(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read_off_its_own_words() {
        assert_eq!(total_kib("MemTotal:       24682416 kB\nMemFree: 1 kB\n"), Some(24_682_416));
        assert_eq!(total_kib("MemFree: 1 kB\n"), None);
        assert!(memory_bytes() >= 1 << 20 && memory_bytes().is_multiple_of(4));
    }

    #[test]
    fn the_cpu_is_named_with_its_threads() {
        assert_eq!(DeviceInfo::cpu(1).name, "sortie CPU (1 thread)");
        assert_eq!(DeviceInfo::cpu(8).to_string(), "sortie CPU (8 threads) (cpu, built-in)");
    }
}
