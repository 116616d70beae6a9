//! Our own memory of whether the device is gone.
//!
//! After a loss wgpu is mostly silent: buffers and submissions "succeed" and "work done" still fires. So the flag is ours, and it
//! never goes back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Gpu;
use crate::error::{Error, ErrorKind, Result};

#[derive(Debug, Default)]
pub(crate) struct Lost {
    reason: OnceLock<String>,
    /// The driver itself says so: wgpu's `poll` would panic.
    by_driver: AtomicBool,
}

/// What polling has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// wgpu has looked, and what was waited for is done.
    Done,
    /// wgpu does not know the submission it gave us: it has dropped it.
    Dropped,
    /// wgpu panicked, and the device counts as lost.
    Failed,
}

impl Lost {
    /// The first reason stays.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        if self.reason.set(reason.into()).is_ok() {
            tracing::error!(target: "sortie", reason = self.reason.get(), "the device is lost");
        }
    }

    /// The driver has lost the device.
    pub(crate) fn set_by_driver(&self) {
        self.by_driver.store(true, Ordering::Release);
        self.set("the driver says so");
    }

    pub(crate) fn by_driver(&self) -> bool {
        self.by_driver.load(Ordering::Acquire)
    }

    /// wgpu's `poll`, which must not be given a timeout. It panics when the driver has lost the device, and when a callback of the application's does. The second time neither is there
    /// any more but the first, so a device that fails twice in a row is lost.
    pub(crate) fn poll(&self, device: &Gpu, how: &wgpu::PollType) -> Polled {
        debug_assert!(!matches!(how, wgpu::PollType::Wait { timeout: Some(_), .. }), "it can panic then");
        for _ in 0..2 {
            match catch_unwind(AssertUnwindSafe(|| device.poll(how.clone()))) {
                Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => return Polled::Dropped,
                Ok(_) => return Polled::Done,
                Err(_) => {}
            }
        }
        self.set("the device failed while it was waited for");
        Polled::Failed
    }

    /// Asks the device whether it has been destroyed. wgpu reports that by itself only once all work is done.
    pub(crate) fn probe(&self, device: &Gpu) {
        if self.reason.get().is_none() && !device.alive() {
            self.set("it was destroyed");
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
        self.probe(device);
        match self.check() {
            Ok(()) => error,
            Err(lost) => lost.caused_by(error),
        }
    }
}
