//! Records whether the device is lost.
//!
//! After a loss wgpu reports little: creating buffers and submitting "succeed", and "work done" still fires. So we keep
//! our own flag. It is never cleared.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::error::{Error, ErrorKind, Result};

#[derive(Debug, Default)]
pub(crate) struct Lost {
    reason: OnceLock<String>,
    /// The driver reported the loss: wgpu's `poll` would panic.
    by_driver: AtomicBool,
}

impl Lost {
    /// The first reason stays.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        if self.reason.set(reason.into()).is_ok() {
            tracing::error!(target: "sortie", reason = self.reason.get(), "the device is lost");
        }
    }

    /// The driver reported that the device is lost.
    pub(crate) fn set_by_driver(&self) {
        self.by_driver.store(true, Ordering::Release);
        self.set("the driver says so");
    }

    pub(crate) fn by_driver(&self) -> bool {
        self.by_driver.load(Ordering::Acquire)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.reason.get().is_some()
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
}
