//! What runs plans: wgpu, or the built-in CPU. Each backend has its own queue, memory, readbacks and compiled kernels.

pub(crate) mod cpu;
pub(crate) mod generated;
pub(crate) mod interpret;
pub(crate) mod wgpu;
