//! Switches of the planner, and the device limits that affect a plan.
//!
//! A plan depends on the recording and on these values only, so a cache of plans is keyed by both.

/// Switches and limits of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// Operations may run in another order than recorded, if that does not change the result.
    pub reorder: bool,
    /// Scratch slots may share memory when they are never alive together.
    pub reuse: bool,
    /// Tensor operations may be fused into shared kernels.
    pub fuse: bool,
    /// Minimum independent units of one signature that are [joined](crate::join::join); 0: none are.
    pub join: u32,
    /// The backend runs programs natively (the built-in CPU): it reads the sides of products through any strides.
    pub native_programs: bool,
    /// The driver runs kernels in software.
    pub software: bool,
    /// How large matrix products are computed.
    pub product: MatmulKernel,
    /// Maximum storage buffers of a kernel.
    pub storage_buffers: u32,
    /// Alignment in bytes of every hidden parameter block; 0 counts as 1.
    pub params_align: u32,
    /// Maximum workgroups of a dispatch along each axis.
    pub max_groups: u32,
    /// Maximum bytes that the fill kernel can bind.
    pub fill_binding_bytes: u64,
}

impl Caps {
    /// Bytes that one dispatch of the fill kernel can fill with a pattern of `period` bytes: whole patterns, after an
    /// alignment.
    #[must_use]
    pub fn fill_chunk(&self, period: u32) -> u64 {
        let period = u64::from(period.max(1));
        self.fill_binding_bytes.saturating_sub(u64::from(self.params_align)) / period * period
    }
}

/// A way to compute large matrix products. All give the same result; the fastest depends on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatmulKernel {
    /// Each invocation keeps a block of 8 × 8 in registers; no workgroup memory.
    Blocks,
    /// Blocks of 16 × 32: more than registers hold, for drivers that keep them in memory anyway and for which loads
    /// dominate.
    Wide,
    /// Workgroups keep tiles of both sides in workgroup memory, invocations keep blocks of 4 × 4 in registers.
    Tiles,
}

impl MatmulKernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Blocks, Self::Wide, Self::Tiles];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Wide => "wide",
            Self::Tiles => "tiles",
        }
    }

    /// The way with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

impl Default for Caps {
    /// Everything allowed, and WebGPU's guaranteed limits: 8 buffers, 65,535 workgroups, bindings of 128 MiB. 256 is
    /// the largest offset alignment that WebGPU lets a device require.
    fn default() -> Self {
        Self {
            reorder: true,
            reuse: true,
            fuse: true,
            join: 0,
            native_programs: false,
            software: false,
            product: MatmulKernel::Blocks,
            storage_buffers: 8,
            params_align: 256,
            max_groups: 65_535,
            fill_binding_bytes: 128 << 20,
        }
    }
}
