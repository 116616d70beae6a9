//! What a batch is made of, by name: told by whoever planned it.

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

/// What was recorded, and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct PlanOutline {
    /// As the user counts them.
    pub(crate) ops: Vec<OpOutline>,
    /// Outer ones come before inner ones.
    pub(crate) scopes: Vec<ScopeOutline>,
    /// The steps of the plan.
    pub(crate) steps: Vec<StepOutline>,
}

#[derive(Debug)]
pub(crate) struct OpOutline {
    /// What was called to record it.
    pub(crate) what: Arc<str>,
    pub(crate) label: String,
    pub(crate) at: &'static Location<'static>,
    /// The innermost scope.
    pub(crate) scope: Option<usize>,
    /// When it was recorded, in nanoseconds since the log began.
    pub(crate) recorded: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct ScopeOutline {
    pub(crate) label: String,
    pub(crate) outer: Option<usize>,
    /// Its ops.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Default)]
pub(crate) struct StepOutline {
    /// The kernel, or what it is instead.
    pub(crate) name: Arc<str>,
    /// The ops that it stands for.
    pub(crate) ops: SmallVec<[u32; 2]>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Operations on floats, where they are known.
    pub(crate) flops: Option<u64>,
    /// What could run side by side has the same.
    pub(crate) wave: Option<u32>,
}
