//! What the planner may do, and the one device limit that shows in a plan.
//!
//! A plan depends on the recording and on these values only, so a cache of plans is keyed by both.

/// Switches and limits of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// Operations may run in another order than recorded, where that cannot show.
    pub reorder: bool,
    /// Scratch slots may share memory when they are never alive together.
    pub reuse: bool,
    /// Tensor operations may share kernels.
    pub fuse: bool,
    /// Kernels run on the host: products of matrices are not kernels, so nothing joins them, and invocations gain nothing from vectors.
    pub host: bool,
    /// The driver runs kernels in software.
    pub software: bool,
    /// Buffers that a kernel may have.
    pub storage_buffers: u32,
    /// Alignment in bytes of every hidden parameter block; 0 counts as 1.
    pub params_align: u32,
}

impl Default for Caps {
    /// Everything allowed; 8 buffers are what WebGPU guarantees; 256 is the largest offset alignment that WebGPU lets a device ask for.
    fn default() -> Self {
        Self {
            reorder: true,
            reuse: true,
            fuse: true,
            host: false,
            software: false,
            storage_buffers: 8,
            params_align: 256,
        }
    }
}
