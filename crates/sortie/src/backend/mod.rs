//! What runs plans: wgpu, or the built-in CPU. Each backend has its own queue, memory and readbacks.

pub(crate) mod cpu;
pub(crate) mod interpret;
pub(crate) mod wgpu;
