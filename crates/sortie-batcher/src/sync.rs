//! The locks of this crate and the flag that wakes workers, in one place so that the concurrency tests can replace them
//! with those of `shuttle`.

pub(crate) use std::{sync::atomic::AtomicBool, thread::yield_now};

pub(crate) use parking_lot::{Condvar, Mutex};
