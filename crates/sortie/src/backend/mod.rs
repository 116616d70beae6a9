//! What differs between backends.

pub(crate) mod cpu;
pub(crate) mod generated;
pub(crate) mod wgpu;
