//! What differs between backends.

pub(crate) mod cpu;
pub(crate) mod wgpu;
