//! Memory of the built-in CPU: 32-bit words, zeroed on creation.
//!
//! Invariant: a thread that locks it has the turn of the submit queue, or the only handle to its block. So no thread
//! ever waits for the lock, and no lock order can be wrong. The lock exists so that the compiler can check exclusive
//! access.

use parking_lot::{Mutex, MutexGuard};

use crate::{
    error::{Error, ErrorKind, Result},
    memory::{Block, DeviceMemory, MemorySource, index},
};

#[derive(Debug)]
pub(crate) struct HostMemory {
    words: Mutex<Box<[u32]>>,
}

impl HostMemory {
    /// `bytes` of zeros, rounded up to whole words. The system allocates the pages as they are touched.
    fn new(bytes: u64) -> Result<Self> {
        let words = usize::try_from(bytes.div_ceil(4)).ok().and_then(|len| bytemuck::try_zeroed_slice_box(len).ok());
        let words = words.ok_or_else(|| {
            let bytes = bytes.next_multiple_of(4);
            let kind = ErrorKind::OutOfMemory { wanted: bytes, budget: 0 };
            Error::new(kind, format!("the system cannot allocate {bytes} bytes"))
        })?;
        Ok(Self { words: Mutex::new(words) })
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Box<[u32]>> {
        self.words.lock()
    }

    /// Writes data at a word boundary, padded with zeros to the next one.
    pub(crate) fn write(&self, start: u64, data: &[u8]) {
        let mut words = self.lock();
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let start = index(start);
        let end = start + data.len();
        all[start..end].copy_from_slice(data);
        all[end..end.next_multiple_of(4)].fill(0);
    }

    /// Zeroes the first bytes, in whole words.
    pub(crate) fn zero(&self, bytes: u64) {
        self.lock()[..index(bytes.div_ceil(4))].fill(0);
    }
}

impl DeviceMemory for HostMemory {}

/// The memory of a block of the built-in CPU.
///
/// # Errors
/// `Internal` for a block of another backend.
#[inline]
pub(crate) fn host_memory(block: &Block) -> Result<&HostMemory> {
    block.memory().ok_or_else(|| Error::internal("the built-in CPU was given memory of another backend"))
}

/// Allocates memory of the host.
#[derive(Debug)]
pub(crate) struct HostMemorySource;

impl MemorySource for HostMemorySource {
    fn create(&self, bytes: u64) -> Result<Box<dyn DeviceMemory>> {
        Ok(Box::new(HostMemory::new(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_padded_with_zeros_to_a_whole_word() {
        let memory = HostMemory::new(10).expect("12 bytes");
        assert_eq!(memory.lock().len(), 3);
        memory.write(0, &[0xff; 12]);
        memory.write(4, &[1, 2, 3]);
        assert_eq!(**memory.lock(), [u32::MAX, u32::from_ne_bytes([1, 2, 3, 0]), u32::MAX]);
        memory.zero(5);
        assert_eq!(**memory.lock(), [0, 0, u32::MAX]);
    }

    #[test]
    fn more_than_there_is_is_an_error_and_no_abort() {
        let error = HostMemory::new(1 << 62).expect_err("4 EiB");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory { wanted: 1 << 62, budget: 0 });
    }
}
