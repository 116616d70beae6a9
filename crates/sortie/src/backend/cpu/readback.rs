//! Readback of a batch on the built-in CPU: one list of words per read, copied once.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    error::{Error, Result},
    finish::{PendingReadback, ReadReady},
};

/// Filled while the batch runs, then read by its readings. Each read is identified by the offset that it got when it
/// was recorded.
#[derive(Debug, Default)]
pub(crate) struct CpuReadback {
    /// Sorted by offset once the batch is done.
    reads: Mutex<Vec<(u64, Vec<u32>)>>,
    /// Several readings use the same read: none of them may move the data out.
    shared: bool,
}

impl CpuReadback {
    pub(crate) fn new(shared: bool) -> Self {
        Self { reads: Mutex::default(), shared }
    }

    pub(crate) fn push(&self, place: u64, words: Vec<u32>) {
        self.reads.lock().push((place, words));
    }

    fn with_words<R>(&self, place: u64, then: impl FnOnce(&mut Vec<u32>) -> R) -> Option<R> {
        let mut reads = self.reads.lock();
        let index = reads.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(then(&mut reads[index].1))
    }
}

impl PendingReadback for CpuReadback {
    /// Host memory needs no mapping.
    fn mapped(&self) -> Option<bool> {
        Some(true)
    }

    fn wait_mapped(&self, _limit: Duration) {}

    fn ready(self: Arc<Self>) -> Arc<dyn ReadReady> {
        self.reads.lock().sort_unstable_by_key(|(place, _)| *place);
        self
    }
}

impl ReadReady for CpuReadback {
    fn with(&self, at: u64, bytes: usize, then: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.with_words(at, |words| then(&bytemuck::cast_slice::<u32, u8>(words)[..bytes]))
            .ok_or_else(|| Error::internal("a batch finished without its readback"))
    }

    fn take(&self, at: u64) -> Option<Vec<u32>> {
        if self.shared { None } else { self.with_words(at, std::mem::take) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(shared: bool) -> Arc<dyn ReadReady> {
        let readback = Arc::new(CpuReadback::new(shared));
        readback.push(8, vec![3, 4]);
        readback.push(0, vec![u32::from_ne_bytes([1, 2, 3, 0])]);
        readback.ready()
    }

    #[test]
    fn each_read_is_found_by_its_place_whatever_the_type() -> Result<()> {
        let ready = reads(false);
        assert_eq!(ready.copy::<u8>(0, 3)?, [1, 2, 3]);
        assert_eq!((ready.copy::<u32>(8, 8)?, ready.copy::<u32>(8, 8)?), (vec![3, 4], vec![3, 4]));
        assert_eq!(ready.take_or_copy::<u8>(0, 3)?, [1, 2, 3]);
        assert_eq!(ready.take_or_copy::<[u32; 2]>(8, 8)?, [[3, 4]]);
        assert!(ready.copy::<u32>(16, 4).is_err() && ready.take_or_copy::<u32>(16, 4).is_err());
        Ok(())
    }

    #[test]
    fn a_read_that_several_readings_ask_for_is_never_moved() -> Result<()> {
        let ready = reads(true);
        assert_eq!(ready.take_or_copy::<u32>(8, 8)?, [3, 4]);
        assert_eq!(ready.take_or_copy::<u32>(8, 8)?, [3, 4]);
        Ok(())
    }
}
