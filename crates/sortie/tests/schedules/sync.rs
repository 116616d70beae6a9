//! shuttle's locks with `parking_lot`'s faces.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The guard is taken out while its condition is waited for.
pub(crate) struct Guard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard(Some(self.0.lock().expect("no test panics under the lock")))
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let held = guard.0.take().expect("held");
        guard.0 = Some(self.0.wait(held).expect("no test panics under the lock"));
    }

    /// Time does not pass here: it ends by a notification.
    pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn start() -> Self {
        Self
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// All moments lie far ahead.
    pub(crate) fn at(&self, _moment: std::time::Instant) -> Duration {
        Duration::MAX
    }
}
