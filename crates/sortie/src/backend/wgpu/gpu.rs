//! The wgpu device, its errors, caught on the calling thread, and whether it is still there.
//!
//! On a device of our own, the handler that [`Gpu::owned`] installs puts them where the caller looks: wgpu calls it on the thread that made
//! the mistake. On a foreign device nothing is installed and wgpu's own error scopes are used, which cost a lock and an allocation each.
//! Either way the calls between `push` and `pop` stay on one thread. A lost device is silent here: ask `Lost` too.

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

/// A wgpu device, and whether it is somebody else's.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    device: wgpu::Device,
    is_borrowed: bool,
}

impl Gpu {
    /// A device of our own, whose errors come to us.
    pub(crate) fn owned(device: wgpu::Device) -> Self {
        device.on_uncaptured_error(Arc::new(catch));
        Self { device, is_borrowed: false }
    }

    /// A device on which we are a guest.
    pub(crate) fn borrowed(device: wgpu::Device) -> Self {
        Self { device, is_borrowed: true }
    }

    pub(crate) fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }

    /// Whether the device still makes buffers. wgpu is silent about a destroyed device, but what it makes there cannot be mapped.
    pub(crate) fn alive(&self) -> bool {
        let scopes = self.scopes();
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie probe"),
            size: 4,
            usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: true,
        });
        let mapped = buffer.get_mapped_range_mut(..).is_ok();
        // An error that is reported, such as a lack of memory, is one of a device that is there.
        scopes.pop(|| "a probe".into(), 4).is_err() || mapped
    }

    /// Begins to catch errors.
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

/// What polling has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// wgpu has looked, and what was waited for is done.
    Done,
    /// wgpu does not know the submission it gave us: it has dropped it.
    Dropped,
    /// wgpu panicked, and the device counts as lost.
    Failed,
}

/// What only a wgpu device can be asked.
impl Lost {
    /// wgpu's `poll`, which must not be given a timeout. It panics when the driver has lost the device, and when a callback of the application's does. The second time neither is there
    /// any more but the first, so a device that fails twice in a row is lost.
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

    /// Asks the device whether it has been destroyed. wgpu reports that by itself only once all work is done.
    pub(crate) fn probe(&self, device: &Gpu) {
        if !self.is_set() && !device.alive() {
            self.set("it was destroyed");
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

/// Errors are being caught on this thread until [`ErrorScope::pop`].
pub(crate) enum ErrorScope {
    Own(CaughtErrors),
    /// Innermost first, which is the order they must be popped in, also when dropped.
    Guest {
        validation: wgpu::ErrorScopeGuard,
        memory: wgpu::ErrorScopeGuard,
        internal: wgpu::ErrorScopeGuard,
    },
}

impl ErrorScope {
    /// The first error caught, as ours. `wanted` is the number of bytes the calls asked for.
    pub(crate) fn pop(self, what: impl FnOnce() -> String, wanted: u64) -> Result<()> {
        let caught = match self {
            Self::Own(catching) => catching.end(),
            Self::Guest { internal, memory, validation } => {
                // Scopes nest: the innermost must go first.
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
    /// What this thread has caught: outer `None` when nobody is looking.
    static CAUGHT: RefCell<Option<Option<wgpu::Error>>> = const { RefCell::new(None) };
}

/// Looking for errors on this thread.
pub(crate) struct CaughtErrors {
    /// What an outer scope has caught so far.
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
        // The first error is the cause, the rest follow from it.
        Some(first) => drop(first.get_or_insert(error)),
        None => tracing::error!(%error, "wgpu reported an error that nobody was looking for"),
    });
}

/// Native wgpu answers a popped scope at once.
fn now(future: impl Future<Output = Option<wgpu::Error>>) -> Option<wgpu::Error> {
    pollster::block_on(future)
}
