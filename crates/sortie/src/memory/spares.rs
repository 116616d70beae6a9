//! Host objects kept for later batches, so that a steady loop allocates nothing.

use parking_lot::Mutex;

/// About as many as threads record, or submissions are in flight, at once.
const MAX_SPARES: usize = 16;
/// Objects with more capacity than this are not kept, so that one large batch does not hold its memory.
pub(crate) const MAX_SPARE_OPS: usize = 1 << 16;
pub(crate) const MAX_SPARE_BYTES: usize = 1 << 20;

/// At most [`MAX_SPARES`] objects.
pub(crate) struct Spares<T>(Mutex<Vec<T>>);

impl<T: Default> Spares<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A spare object, or a new one.
    pub(crate) fn take(&self) -> T {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Keeps an object that has been cleared: dropping its contents must not happen under the lock.
    pub(crate) fn put(&self, cleared: T) {
        let mut spares = self.0.lock();
        if spares.len() < MAX_SPARES {
            spares.push(cleared);
        }
    }
}
