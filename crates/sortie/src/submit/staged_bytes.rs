//! The bound of what writes may take: bytes that are held for the device, or wait for their turn.
//!
//! Devices copy the data of a write and move it later. Without a bound they would keep them all. So they are counted, against the memory
//! budget too, and submitted by themselves when they become too many.

use std::sync::{Arc, atomic::Ordering};

use crate::metrics::{AtomicCounter, Counters};

/// Most bytes of writes that are kept, but for one write that is longer: enough that submissions of their own do not show (see `docs/reliability.md`).
const MOST: u64 = 32 << 20;

/// `Counters::staged_bytes`, and how far it may go. The device's queue subtracts the bytes of writes that the device has taken.
#[derive(Debug)]
pub(super) struct StagedBytes {
    counters: Arc<Counters>,
    most: u64,
}

impl StagedBytes {
    pub(super) fn new(counters: Arc<Counters>, budget: Option<u64>) -> Self {
        // A quarter, so that writes and what is written to fit beside each other.
        let most = budget.map_or(MOST, |budget| (budget / 4).min(MOST));
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

    /// A write has been given room.
    pub(super) fn add(&self, bytes: u64) {
        self.counters.staged_bytes.add(bytes);
    }
}
