//! The wgpu device, its errors (caught on the calling thread), and whether it is lost.
//!
//! On our own device, [`Gpu::owned`] installs a handler that stores errors for the caller: wgpu calls it on the thread
//! that made the mistake. On a borrowed device nothing is installed and wgpu's own error scopes are used, which cost a
//! lock and an allocation each. Either way the calls between `push` and `pop` stay on one thread. A lost device reports
//! no errors here: check `Lost` too.

use std::{
    cell::RefCell,
    future::Future,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    error::{Error, ErrorKind, Result},
    lost::Lost,
};

/// A wgpu device, and whether it belongs to the application.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    device: wgpu::Device,
    pub(crate) is_borrowed: bool,
}

impl Gpu {
    /// Our own device, whose errors go to our handler.
    pub(crate) fn owned(device: wgpu::Device) -> Self {
        device.on_uncaptured_error(Arc::new(catch));
        Self { device, is_borrowed: false }
    }

    /// The application's device.
    pub(crate) fn borrowed(device: wgpu::Device) -> Self {
        Self { device, is_borrowed: true }
    }

    /// Whether the device can still create buffers. wgpu reports no error for a destroyed device, but its new buffers
    /// cannot be mapped.
    pub(crate) fn alive(&self) -> bool {
        let scopes = self.scopes();
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie probe"),
            size: 4,
            usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: true,
        });
        let mapped = buffer.get_mapped_range_mut(..).is_ok();
        // A reported error, for example out of memory, means that the device is not destroyed.
        scopes.pop(|| "a probe".into(), 4).is_err() || mapped
    }

    /// Starts to catch errors on this thread.
    pub(crate) fn scopes(&self) -> ErrorScope {
        if self.is_borrowed {
            let push = |filter| self.device.push_error_scope(filter);
            let internal = push(wgpu::ErrorFilter::Internal);
            let memory = push(wgpu::ErrorFilter::OutOfMemory);
            ErrorScope::Guest { internal, memory, validation: push(wgpu::ErrorFilter::Validation) }
        } else {
            ErrorScope::Own(CaughtErrors::begin())
        }
    }
}

impl Deref for Gpu {
    type Target = wgpu::Device;

    fn deref(&self) -> &wgpu::Device {
        &self.device
    }
}

/// The result of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// wgpu polled, and the awaited work is done.
    Done,
    /// wgpu does not know the submission index that it gave us: it dropped the submission.
    Dropped,
    /// wgpu panicked, and the device counts as lost.
    Failed,
}

/// Checks that only a wgpu device needs.
impl Lost {
    /// Calls wgpu's `poll`, which must not be given a timeout. It panics when the driver has lost the device, and when
    /// a callback of the application panics. A callback runs only once, so a device that fails twice in a row is lost.
    pub(crate) fn poll(&self, device: &Gpu, how: &wgpu::PollType) -> PollOutcome {
        debug_assert!(!matches!(how, wgpu::PollType::Wait { timeout: Some(_), .. }), "it can panic then");
        for _ in 0..2 {
            match catch_unwind(AssertUnwindSafe(|| device.poll(how.clone()))) {
                Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => return PollOutcome::Dropped,
                Ok(_) => return PollOutcome::Done,
                Err(_) => {}
            }
        }
        self.set("the device failed while it was waited for");
        PollOutcome::Failed
    }

    /// Checks whether the device was destroyed. wgpu reports that by itself only once all work is done.
    pub(crate) fn probe(&self, device: &Gpu) {
        if !self.is_set() && !device.alive() {
            self.set("it was destroyed");
        }
    }

    /// Replaces an error caused by a lost device with [`ErrorKind::DeviceLost`]. wgpu itself only reports that
    /// something is not valid.
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

/// Errors are caught on this thread until [`ErrorScope::pop`].
pub(crate) enum ErrorScope {
    Own(CaughtErrors),
    /// Innermost first: they must be popped in this order, also when dropped.
    Guest {
        validation: wgpu::ErrorScopeGuard,
        memory: wgpu::ErrorScopeGuard,
        internal: wgpu::ErrorScopeGuard,
    },
}

impl ErrorScope {
    /// The first error caught, as our type. `wanted` is the number of bytes that the calls asked for.
    pub(crate) fn pop(self, what: impl FnOnce() -> String, wanted: u64) -> Result<()> {
        let caught = match self {
            Self::Own(catching) => catching.end(),
            Self::Guest { internal, memory, validation } => {
                // Scopes nest: the innermost must be popped first.
                let all = [now(validation.pop()), now(memory.pop()), now(internal.pop())];
                all.into_iter().flatten().next()
            }
        };
        let Some(error) = caught else { return Ok(()) };
        let kind = match &error {
            wgpu::Error::OutOfMemory { .. } => ErrorKind::OutOfMemory { wanted, budget: 0 },
            wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => ErrorKind::Internal,
        };
        Err(Error::new(kind, format!("the device refused {}", what())).caused_by(error))
    }
}

thread_local! {
    /// The first error caught on this thread; the outer `None` means that no scope is open.
    static CAUGHT: RefCell<Option<Option<wgpu::Error>>> = const { RefCell::new(None) };
}

/// An open error scope on this thread.
pub(crate) struct CaughtErrors {
    /// The error that an outer scope has caught so far.
    outer: Option<Option<wgpu::Error>>,
}

impl CaughtErrors {
    fn begin() -> Self {
        Self { outer: CAUGHT.replace(Some(None)) }
    }

    fn end(self) -> Option<wgpu::Error> {
        CAUGHT.take().flatten()
    }
}

impl Drop for CaughtErrors {
    fn drop(&mut self) {
        CAUGHT.set(self.outer.take());
    }
}

/// The handler of uncaptured errors of our own devices.
fn catch(error: wgpu::Error) {
    CAUGHT.with_borrow_mut(|caught| match caught {
        // The first error is the cause; the rest follow from it.
        Some(first) => drop(first.get_or_insert(error)),
        None => tracing::error!(%error, "wgpu reported an error outside any error scope"),
    });
}

/// On native wgpu a popped scope resolves at once.
fn now(future: impl Future<Output = Option<wgpu::Error>>) -> Option<wgpu::Error> {
    pollster::block_on(future)
}
