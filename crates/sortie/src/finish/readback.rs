//! The data that a batch reads back: pending until its last submission is done, then ready for its readings.
//!
//! Each backend implements both traits on one type. [`PendingReadback::ready`] returns the same object, so reading
//! allocates nothing extra.
//!
//! Invariant: a read is identified by the offset that it got when it was recorded, wherever the backend keeps the
//! bytes.

use std::{fmt::Debug, sync::Arc, time::Duration};

use bytemuck::Pod;

use crate::error::{Error, Result};

/// The readback of a batch that is still in flight.
pub(crate) trait PendingReadback: Debug + Send + Sync {
    /// Whether mapping succeeded; `None` while it is pending.
    fn mapped(&self) -> Option<bool>;

    /// Waits until mapping has succeeded or failed, at most `limit`.
    fn wait_mapped(&self, limit: Duration);

    /// The data. Called when the batch is done and the data is mapped.
    fn ready(self: Arc<Self>) -> Arc<dyn ReadReady>;
}

/// The readback of a finished batch.
pub(crate) trait ReadReady: Debug + Send + Sync {
    /// Calls `then` with the `bytes` bytes of the read at offset `at`.
    fn with(&self, at: u64, bytes: usize, then: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Moves the read at `at` out, in whole words. `None` if the backend can only copy it.
    fn take(&self, at: u64) -> Option<Vec<u32>>;
}

impl dyn ReadReady {
    /// A copy of the read at `at`.
    pub(crate) fn copy<T: Pod>(&self, at: u64, bytes: u64) -> Result<Vec<T>> {
        let mut copied = Ok(Vec::new());
        self.with(at, narrow(bytes)?, &mut |data| copied = collect(data))?;
        copied
    }

    /// The read at `at`, when this is the last use of it: moved if the backend can and the elements are aligned like
    /// words, else copied.
    pub(crate) fn take_or_copy<T: Pod>(&self, at: u64, bytes: u64) -> Result<Vec<T>> {
        let Some(words) = self.take(at) else { return self.copy(at, bytes) };
        let bytes = narrow(bytes)?;
        let copy = |words: &[u32]| collect(&bytemuck::cast_slice::<u32, u8>(words)[..bytes]);
        if words.len() * 4 != bytes {
            return copy(&words);
        }
        bytemuck::try_cast_vec(words).or_else(|(_, words)| copy(&words))
    }
}

fn narrow(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::too_large("bytes read at once", bytes, usize::MAX as u64))
}

/// Converts bytes, which may be unaligned, to elements.
fn collect<T: Pod>(bytes: &[u8]) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    Error::reserve(&mut elements, bytes.len() / size_of::<T>().max(1))?;
    match bytemuck::try_cast_slice(bytes) {
        Ok(aligned) => elements.extend_from_slice(aligned),
        Err(_) => {
            elements.extend(bytes.chunks_exact(size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned::<T>));
        }
    }
    Ok(elements)
}
