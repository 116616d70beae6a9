//! The description of a batch for its profile: names of ops, scopes and steps. The planner provides it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::CallSite;

/// The ops that were recorded and the steps that they became.
#[derive(Debug, Default)]
pub(crate) struct PlanOutline {
    /// Numbered as in the user's recording.
    pub(crate) ops: Vec<OpOutline>,
    /// Outer ones come before inner ones.
    pub(crate) scopes: Vec<ScopeOutline>,
    /// The steps of the plan.
    pub(crate) steps: Vec<StepOutline>,
}

#[derive(Clone, Debug)]
pub(crate) struct OpOutline {
    /// The method that recorded it.
    pub(crate) what: Arc<str>,
    pub(crate) label: String,
    pub(crate) at: CallSite,
    /// The innermost scope.
    pub(crate) scope: Option<usize>,
    /// When it was recorded, in nanoseconds since the log began.
    pub(crate) recorded: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeOutline {
    pub(crate) label: String,
    pub(crate) outer: Option<usize>,
    /// The range of its ops.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StepOutline {
    /// The kernel, or the kind of transfer.
    pub(crate) name: Arc<str>,
    /// The ops that it executes.
    pub(crate) ops: SmallVec<[usize; 2]>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Floating-point operations, if known.
    pub(crate) flops: Option<u64>,
    /// Steps of the same wave may run concurrently.
    pub(crate) wave: Option<u32>,
}
