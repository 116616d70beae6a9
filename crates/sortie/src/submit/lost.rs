//! Our own memory of whether the device is gone.
//!
//! After a loss wgpu is mostly silent: buffers and submissions "succeed" and "work done" still fires. So the flag is ours, and it
//! never goes back.

use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};

#[derive(Debug, Default)]
pub(crate) struct Lost(OnceLock<String>);

impl Lost {
    /// The first reason stays.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        drop(self.0.set(reason.into()));
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
    pub(crate) fn explain(&self, device: &wgpu::Device, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::Internal | ErrorKind::OutOfMemory { budget: 0, .. }) {
            return error;
        }
        // The loss is reported from within poll.
        drop(device.poll(wgpu::PollType::Poll));
        match self.check() {
            Ok(()) => error,
            Err(lost) => lost.caused_by(error),
        }
    }
}
