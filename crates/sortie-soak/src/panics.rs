//! Counts panics of all threads, those that are caught included.

use std::{
    panic,
    sync::atomic::{AtomicU64, Ordering},
};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts panics from now on. The message still goes to standard error.
pub fn watch() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        COUNT.fetch_add(1, Ordering::SeqCst);
        before(info);
    }));
}

/// Number of panics since [`watch`].
pub fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}
