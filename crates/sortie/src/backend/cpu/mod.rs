//! The built-in CPU.

pub(crate) mod compiler;
pub(crate) mod kernel;
pub(crate) mod native;
