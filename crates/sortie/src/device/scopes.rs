//! wgpu's errors, caught on the calling thread.
//!
//! Error scopes are thread-local in wgpu 30, so calls between `push` and `pop` stay on one thread. A lost device is silent here:
//! ask [`Lost`](super::Lost) too.

use std::future::Future;

use crate::error::{Error, ErrorKind, Result};

/// Catches what wgpu reports between [`Scopes::push`] and [`Scopes::pop`].
pub(crate) struct Scopes {
    internal: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
}

impl Scopes {
    pub(crate) fn push(device: &wgpu::Device) -> Self {
        Self {
            internal: device.push_error_scope(wgpu::ErrorFilter::Internal),
            memory: device.push_error_scope(wgpu::ErrorFilter::OutOfMemory),
            validation: device.push_error_scope(wgpu::ErrorFilter::Validation),
        }
    }

    /// The first error caught, as ours. `wanted` is the number of bytes the calls asked for.
    pub(crate) fn pop(self, what: &str, wanted: u64) -> Result<()> {
        // Scopes nest: the innermost must go first.
        let caught = [now(self.validation.pop()), now(self.memory.pop()), now(self.internal.pop())];
        match caught.into_iter().flatten().next() {
            None => Ok(()),
            Some(error) => {
                let kind = match &error {
                    wgpu::Error::OutOfMemory { .. } => ErrorKind::OutOfMemory { wanted, budget: 0 },
                    wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => ErrorKind::Internal,
                };
                Err(Error::new(kind, format!("the device refused {what}")).caused_by(error))
            }
        }
    }
}

/// Native wgpu answers a popped scope at once.
fn now(future: impl Future<Output = Option<wgpu::Error>>) -> Option<wgpu::Error> {
    pollster::block_on(future)
}
