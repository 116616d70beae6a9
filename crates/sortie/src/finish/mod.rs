//! What those who wait for a batch get: the data that it read back.

mod readback;

pub(crate) use self::readback::{PendingReadback, ReadReady};
