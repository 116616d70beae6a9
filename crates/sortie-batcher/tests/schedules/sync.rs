//! shuttle's locks with the methods of `parking_lot`'s. The schedules of `sortie` use them too.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

pub(crate) use shuttle::{sync::atomic::AtomicBool, thread::yield_now};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The guard is taken out while its condition is waited for.
pub(crate) struct Guard<'a, T> {
    lock: &'a shuttle::sync::Mutex<T>,
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard { lock: &self.0, held: Some(self.0.lock().expect("no test panics under the lock")) }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let held = guard.held.take().expect("held");
        guard.held = Some(self.0.wait(held).expect("no test panics under the lock"));
    }

    /// It may always take so long that the time is up.
    pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _timeout: Duration) {
        let lock = guard.lock;
        guard.held = None;
        shuttle::thread::yield_now();
        guard.held = Some(lock.lock().expect("no test panics under the lock"));
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
