//! Threads with a stack large enough for naga.

use std::thread::{self, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};

/// naga and the drivers recurse over the source: what [`super::source::check`] lets through fits in this, debug builds included.
const STACK: usize = 128 << 20;

/// Runs on a thread whose stack is large enough for naga, and waits for it.
pub(super) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| join(large_stack(scope, run)?))
}

pub(super) fn large_stack<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let thread = thread::Builder::new().name("sortie-compile".into()).stack_size(STACK).spawn_scoped(scope, run);
    thread.map_err(|error| Error::internal("the compile thread did not start").caused_by(error))
}

pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T> {
    thread.join().map_err(|_| Error::internal("the compiler panicked on this kernel; please report it"))
}
