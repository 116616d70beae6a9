//! WGSL constructs that are not supported.

/// A construct that is not supported on the CPU.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what} is not supported on the CPU")]
pub struct Unsupported {
    /// What it is, for the error message.
    pub what: String,
    /// Its location in the source.
    pub span: naga::Span,
}
