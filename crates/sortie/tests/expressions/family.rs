//! The families of kernels.

/// What a kernel may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Integers and booleans with control flow.
    Integers,
    /// The same, and floats whose operations are all exact.
    Exact,
    /// Straight lines of floats that are rounded, with a bound on what that can do.
    Rounded,
    /// The same, with one transcendental function at the end.
    Transcendental,
}
