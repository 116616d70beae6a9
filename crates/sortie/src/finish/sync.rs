//! The locks of this layer, named once so that the concurrency tests can put `shuttle`'s in their place.

pub(crate) use parking_lot::{Condvar, Mutex};
