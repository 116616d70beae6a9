//! Our own memory of whether the device is gone.
//!
//! After a loss wgpu is mostly silent: buffers and submissions "succeed" and "work done" still fires. So the flag is ours, and it
//! never goes back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    time::Duration,
};

use super::Gpu;
use crate::error::{Error, ErrorKind, Result};

/// How long what is still under way on a device may take to end once submissions are being dropped.
const REST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Lost(OnceLock<String>);

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
        if self.0.set(reason.into()).is_ok() {
            tracing::error!(target: "sortie", reason = self.0.get(), "the device is lost");
        }
    }

    /// wgpu's `poll`, except that a device which fails in it is lost: wgpu itself panics then.
    pub(crate) fn poll(&self, device: &Gpu, how: wgpu::PollType) -> Polled {
        match catch_unwind(AssertUnwindSafe(|| device.poll(how))) {
            Ok(Ok(_)) => Polled::Done,
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
                self.set("the device failed while it was waited for");
                Polled::Pending
            }
        }
    }

    /// A foreign device cannot tell us that it is gone: it is asked.
    pub(crate) fn probe(&self, device: &Gpu) {
        if device.guest() && !device.alive() {
            self.set("its owner destroyed the device");
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
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
