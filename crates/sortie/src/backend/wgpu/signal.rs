//! Waits for a callback of wgpu, or for the drop of a callback that was never called.

use std::{sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex};

/// The result of a callback, which a thread can wait for.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<Option<bool>>,
    changed: Condvar,
}

/// The sender of a [`Signal`]. If it is dropped without a call, the result is `false`: wgpu drops callbacks when an
/// earlier one panics, and when commands are never submitted.
#[derive(Debug)]
pub(crate) struct SignalGuard(Arc<Signal>);

impl Signal {
    pub(crate) fn new() -> (Arc<Self>, SignalGuard) {
        Self::again(Arc::default())
    }

    /// Uses a signal that [has been reset](Self::reset).
    pub(crate) fn again(signal: Arc<Self>) -> (Arc<Self>, SignalGuard) {
        (signal.clone(), SignalGuard(signal))
    }

    /// Makes it usable again. False while its [`SignalGuard`] still exists.
    pub(crate) fn reset(signal: &mut Arc<Self>) -> bool {
        Arc::get_mut(signal).is_some_and(|signal| {
            *signal.state.get_mut() = None;
            true
        })
    }

    /// The result; `None` until the callback was called or dropped.
    pub(crate) fn get(&self) -> Option<bool> {
        *self.state.lock()
    }

    /// Waits for the result, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let mut state = self.state.lock();
        if state.is_none() {
            self.changed.wait_for(&mut state, limit);
        }
    }
}

impl SignalGuard {
    /// Sets whether it succeeded.
    pub(crate) fn set(self, well: bool) {
        self.0.state.lock().get_or_insert(well);
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.0.state.lock().get_or_insert(false);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_is_dropped_instead_of_called_says_so() {
        let (called, guard) = Signal::new();
        assert_eq!(called.get(), None);
        guard.set(true);
        assert_eq!(called.get(), Some(true));
        let (dropped, guard) = Signal::new();
        drop(guard);
        dropped.wait(Duration::MAX);
        assert_eq!(dropped.get(), Some(false));
    }

    #[test]
    fn a_signal_is_reused_once_its_guard_is_dropped() {
        let (mut signal, guard) = Signal::new();
        assert!(!Signal::reset(&mut signal));
        guard.set(true);
        assert!(Signal::reset(&mut signal));
        let (signal, _guard) = Signal::again(signal);
        assert_eq!(signal.get(), None);
    }
}
