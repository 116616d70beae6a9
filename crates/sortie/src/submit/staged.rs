//! Bytes of writes that wgpu keeps: until they are submitted, and until the device has taken them.
//!
//! wgpu copies the data of a write into a buffer of its own and submits the copy with the next submission. Without one it would keep them all. So they are counted, against the
//! memory budget too, and submitted by themselves when they become too many.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::wait_point::WaitPoint;
use crate::metrics::{Count, Counters};

/// Most bytes of writes that are kept, but for one write that is longer: enough that submissions of their own do not show (see `docs/reliability.md`).
const MOST: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Staged {
    counters: Arc<Counters>,
    most: u64,
    /// Applied, but not submitted.
    unsubmitted: AtomicU64,
    /// Submitted, in order.
    submitted: Mutex<VecDeque<(WaitPoint, u64)>>,
}

impl Staged {
    pub(super) fn new(counters: Arc<Counters>, budget: Option<u64>) -> Self {
        // A quarter, so that writes and what is written to fit beside each other.
        let most = budget.map_or(MOST, |budget| (budget / 4).min(MOST));
        Self { counters, most, unsubmitted: AtomicU64::new(0), submitted: Mutex::default() }
    }

    /// Whether staging `bytes` more would exceed the limit.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        let staged = self.counters.staged_bytes.load(Ordering::Relaxed);
        staged > 0 && staged.saturating_add(bytes) > self.most
    }

    /// A write has been given room.
    pub(super) fn add(&self, bytes: u64) {
        self.counters.staged_bytes.add(bytes);
    }

    /// A write has gone, or was never made.
    pub(super) fn sub(&self, bytes: u64) {
        self.counters.staged_bytes.sub(bytes);
    }

    /// A write goes with the next submission.
    pub(super) fn applied(&self, bytes: u64) {
        self.unsubmitted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether wgpu has writes that it has not submitted.
    pub(super) fn pending(&self) -> bool {
        self.unsubmitted.load(Ordering::Relaxed) > 0
    }

    /// All that was applied has been submitted. `None`: it was dropped.
    pub(super) fn left(&self, point: Option<&WaitPoint>) {
        let bytes = self.unsubmitted.swap(0, Ordering::Relaxed);
        match point {
            _ if bytes == 0 => {}
            Some(point) => self.submitted.lock().push_back((point.clone(), bytes)),
            None => self.sub(bytes),
        }
    }

    /// What the oldest is waited for by.
    pub(super) fn oldest(&self) -> Option<WaitPoint> {
        self.submitted.lock().front().map(|(point, _)| point.clone())
    }

    /// Forgets those that the device has taken.
    pub(super) fn reap(&self, is_over: impl Fn(&WaitPoint) -> bool) {
        while let Some(oldest) = self.oldest().filter(&is_over) {
            let mut submitted = self.submitted.lock();
            // Another thread may have been faster.
            if submitted.front().is_some_and(|(point, _)| *point == oldest)
                && let Some((_, bytes)) = submitted.pop_front()
            {
                self.sub(bytes);
            }
        }
    }
}
