//! WGSL constructs that are not supported.

use std::fmt;

/// A construct that is not supported on the CPU.
#[derive(Clone, Debug)]
pub struct Unsupported {
    /// What it is, for the error message.
    pub what: String,
    /// Its location in the source.
    pub span: naga::Span,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported on the CPU", self.what)
    }
}

impl std::error::Error for Unsupported {}
