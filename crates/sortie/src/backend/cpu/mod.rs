//! The built-in CPU.

pub(crate) mod kernel;
