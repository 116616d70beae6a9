//! Writes that wgpu has accepted and the device has not executed.
//!
//! wgpu copies the data of a write into its own buffer and submits the copy with the next submission. The bytes count
//! in `Counters::staged_bytes` until that submission is done.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::wait_point::WaitPoint;
use crate::metrics::{AtomicCounter, Counters};

pub(super) struct PendingWrites {
    counters: Arc<Counters>,
    /// Applied, but not submitted.
    unsubmitted: AtomicU64,
    /// Submitted, in order.
    submitted: Mutex<VecDeque<(WaitPoint, u64)>>,
}

impl PendingWrites {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self { counters, unsubmitted: AtomicU64::new(0), submitted: Mutex::default() }
    }

    /// Adds a write that goes with the next submission.
    pub(super) fn applied(&self, bytes: u64) {
        self.unsubmitted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether wgpu has writes that it has not submitted.
    pub(super) fn any_unsubmitted(&self) -> bool {
        self.unsubmitted.load(Ordering::Relaxed) > 0
    }

    /// All applied writes were submitted, or dropped if `point` is `None`.
    pub(super) fn left(&self, point: Option<&WaitPoint>) {
        let bytes = self.unsubmitted.swap(0, Ordering::Relaxed);
        match point {
            _ if bytes == 0 => {}
            Some(point) => self.submitted.lock().push_back((point.clone(), bytes)),
            None => self.counters.staged_bytes.sub(bytes),
        }
    }

    /// The wait point of the oldest write.
    pub(super) fn oldest(&self) -> Option<WaitPoint> {
        self.submitted.lock().front().map(|(point, _)| point.clone())
    }

    /// Removes writes that the device has executed.
    pub(super) fn reap(&self, is_over: impl Fn(&WaitPoint) -> bool) {
        while let Some(oldest) = self.oldest().filter(&is_over) {
            let mut submitted = self.submitted.lock();
            // Another thread may have been faster.
            if submitted.front().is_some_and(|(point, _)| *point == oldest)
                && let Some((_, bytes)) = submitted.pop_front()
            {
                self.counters.staged_bytes.sub(bytes);
            }
        }
    }
}
