//! A backend's state that a plan keeps from run to run.

use std::any::Any;

use parking_lot::Mutex;

/// A value of the backend. A run takes it out while it uses it, so that another thread running the same plan does not
/// wait: it starts with a new one.
#[derive(Default, derive_more::Debug)]
#[debug("BackendState")]
pub(crate) struct BackendState(Mutex<Option<Box<dyn Any + Send>>>);

impl BackendState {
    /// Takes the value out, or makes a new one if there is none.
    pub(crate) fn take<T: Any + Send + Default>(&self) -> Box<T> {
        let taken = self.0.lock().take();
        taken.and_then(|state| state.downcast().ok()).unwrap_or_default()
    }

    /// Puts it back for the next run.
    pub(crate) fn put<T: Any + Send>(&self, state: Box<T>) {
        *self.0.lock() = Some(state);
    }
}
