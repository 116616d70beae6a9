//! What a backend generates for a tensor program.

use sortie_plan::fuse::Source;

use crate::kernel::{CompiledKernel, Interface};

/// What stands for a tensor program on a device.
pub(crate) enum Generated {
    /// WGSL, to be compiled as any other kernel.
    Source(Source),
    /// A compiled form that never was WGSL.
    Native {
        compiled: Box<dyn CompiledKernel>,
        interface: Interface,
        /// Its work in workgroups, for estimates of what it costs.
        grid: [u32; 3],
    },
}
