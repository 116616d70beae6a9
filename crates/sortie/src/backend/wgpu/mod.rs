//! Devices that wgpu opens.

pub(crate) mod compiler;
pub(crate) mod kernel;
pub(crate) mod layouts;
