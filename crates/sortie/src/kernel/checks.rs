//! The run-time checks that a device compiles into a kernel.
//!
//! Invariant: a source of the user's has all of them, unless the user has vouched for it in `unsafe` code.

/// Checks of a compute kernel, as in `wgpu::ShaderRuntimeChecks`. The built-in CPU always makes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Checks {
    /// Accesses stay within their buffer, array or vector.
    pub(crate) bounds: bool,
    /// Loops are bounded, so that a driver may not assume that they end.
    pub(crate) loops: bool,
    /// Integer divisions by zero, and those that overflow, have WGSL's results.
    pub(crate) divisions: bool,
    /// Workgroup memory starts as zeros.
    pub(crate) zeroed: bool,
}

impl Checks {
    /// All of them.
    pub(crate) const ALL: Self = Self { bounds: true, loops: true, divisions: true, zeroed: true };

    /// Those of kernels that this crate generates. By construction, they stay in bounds, their loops end, and they write
    /// workgroup memory before they read it: the tests in `tests/tensor` run them with a checker. Divisors are data.
    pub(crate) const GENERATED: Self = Self { bounds: false, loops: false, divisions: true, zeroed: false };
}
