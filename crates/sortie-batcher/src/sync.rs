//! The locks of this crate, named once so that the concurrency tests can replace them with those of `shuttle`.

pub(crate) use std::thread::yield_now;

pub(crate) use parking_lot::{Condvar, Mutex};
