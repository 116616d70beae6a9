//! The bound on staged bytes: data of writes that the device has not executed yet, or that wait for their turn.
//!
//! Devices copy the data of a write and execute it later, so without a bound they would keep all of it. The bytes are
//! counted, also against the memory budget, and when there are too many the writes are submitted.

use std::sync::{Arc, atomic::Ordering};

use crate::metrics::{AtomicCounter, Counters};

/// Most staged bytes, except for a single write that is longer. Large enough that the extra submissions cost nothing
/// measurable (see `docs/reliability.md`).
const MAX_STAGED_BYTES: u64 = 32 << 20;

/// `Counters::staged_bytes` and its limit. The device's queue subtracts the bytes of writes that the device has
/// executed.
#[derive(Debug)]
pub(super) struct StagedBytes {
    counters: Arc<Counters>,
    most: u64,
}

impl StagedBytes {
    pub(super) fn new(counters: Arc<Counters>, budget: Option<u64>) -> Self {
        // A quarter, so that staged writes and the buffers they go to both fit.
        let most = budget.map_or(MAX_STAGED_BYTES, |budget| (budget / 4).min(MAX_STAGED_BYTES));
        Self { counters, most }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.counters.staged_bytes.load(Ordering::Relaxed)
    }

    /// Whether staging `bytes` more would exceed the limit.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        let staged = self.bytes();
        staged > 0 && staged.saturating_add(bytes) > self.most
    }

    /// Counts a write.
    pub(super) fn add(&self, bytes: u64) {
        self.counters.staged_bytes.add(bytes);
    }
}
