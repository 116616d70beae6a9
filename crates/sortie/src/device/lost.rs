//! Our own memory of whether the device is gone.
//!
//! After a loss wgpu is mostly silent: buffers and submissions "succeed" and "work done" still fires. So the flag is ours, and it
//! never goes back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use super::Gpu;
use crate::error::{Error, ErrorKind, Result};

/// How long what is still under way on a device may take to end once submissions are being dropped.
const REST: Duration = Duration::from_secs(10);

/// Failures of `poll` in a row that are none of the device's. wgpu 30 panics in one that gives up waiting at the moment at which another thread's sees the work done (the queue is
/// empty, and the index it looked at before is too low); the next one finds all in order.
const EXCUSED: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct Lost {
    reason: OnceLock<String>,
    /// Since the last poll that went well.
    failures: AtomicU32,
}

/// What polling has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// What was waited for is done.
    Done,
    /// It is not, or there is nobody left to do it.
    Pending,
    /// wgpu does not know the submission it gave us.
    Dropped,
}

impl Lost {
    /// The first reason stays.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        if self.reason.set(reason.into()).is_ok() {
            tracing::error!(target: "sortie", reason = self.reason.get(), "the device is lost");
        }
    }

    /// wgpu's `poll`, except that a device which fails in it again and again is lost: wgpu itself panics then.
    pub(crate) fn poll(&self, device: &Gpu, how: wgpu::PollType) -> Polled {
        let outcome = catch_unwind(AssertUnwindSafe(|| device.poll(how)));
        match outcome {
            Ok(Ok(_)) => {
                self.failures.store(0, Ordering::Relaxed);
                Polled::Done
            }
            Ok(Err(wgpu::PollError::Timeout)) => Polled::Pending,
            Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => {
                // A destroyed device drops submissions. A foreign one cannot tell us; ours does as soon as its queue is empty.
                if device.guest() {
                    self.set("a submission was dropped by wgpu");
                } else {
                    let rest = wgpu::PollType::Wait { submission_index: None, timeout: Some(REST) };
                    drop(catch_unwind(AssertUnwindSafe(|| device.poll(rest))));
                }
                Polled::Dropped
            }
            Err(_) => {
                self.failed();
                Polled::Pending
            }
        }
    }

    fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) >= EXCUSED {
            self.set("the device failed while it was waited for");
        }
    }

    /// A foreign device cannot tell us that it is gone: it is asked.
    pub(crate) fn probe(&self, device: &Gpu) {
        if device.guest() && !device.alive() {
            self.set("its owner destroyed the device");
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.reason.get() {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                ErrorKind::DeviceLost,
                format!("the device is lost ({reason}); Device::reopen starts afresh"),
            )),
        }
    }

    /// An error that may come of a lost device, told as such: wgpu itself says only that something is not valid.
    pub(crate) fn explain(&self, device: &Gpu, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::Internal | ErrorKind::OutOfMemory { budget: 0, .. }) {
            return error;
        }
        // The loss is reported from within poll.
        self.poll(device, wgpu::PollType::Poll);
        self.probe(device);
        match self.check() {
            Ok(()) => error,
            Err(lost) => lost.caused_by(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_again_and_again_is_lost_and_one_that_fails_now_and_then_is_not() {
        let lost = Lost::default();
        for _ in 0..10 {
            (0..EXCUSED).for_each(|_| lost.failed());
            assert!(lost.check().is_ok());
            lost.failures.store(0, Ordering::Relaxed);
        }
        (0..=EXCUSED).for_each(|_| lost.failed());
        assert!(lost.check().is_err());
    }
}
