//! How callers take part in running batches.

/// How the caller of a request waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// It does not wait yet, or runs no batches.
    Later,
    /// Its thread waits.
    Blocked,
    /// An executor polls it.
    Polled,
}

/// What a caller does after its request was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerTask {
    /// It waits for the answer.
    Wait,
    /// It runs a batch of this worker.
    Run(usize),
    /// It is polled again, after the executor's other tasks, and then [claims](crate::state::BatcherState::claim) a worker.
    Lead,
}
