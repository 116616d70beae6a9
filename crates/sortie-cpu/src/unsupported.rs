//! What a kernel asks for that is not covered.

use std::fmt;

/// A construct that does not run on the CPU, and where it stands.
#[derive(Clone, Debug)]
pub struct Unsupported {
    /// Its name.
    pub what: String,
    /// Where it stands in the source.
    pub span: naga::Span,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported on the CPU", self.what)
    }
}

impl std::error::Error for Unsupported {}
