//! The locks of this module, named once so that the concurrency tests can replace them with `shuttle`'s.

pub(crate) use parking_lot::{Condvar, Mutex};
