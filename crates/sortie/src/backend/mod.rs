//! What devices are made of: one folder for each backend.

pub(crate) mod cpu;
pub(crate) mod wgpu;
