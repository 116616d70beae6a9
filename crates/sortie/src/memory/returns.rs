//! What the submissions of a batch on the built-in CPU have read: one list of words for each read, copied once.

use parking_lot::Mutex;

use super::host;
use crate::error::{Error, Result};

/// Filled while the batch runs, by the place that each read was given when it was recorded.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    read: Mutex<Vec<(u64, Vec<u32>)>>,
    /// More than one reading asks for the same: none of them may have it for good.
    shared: bool,
}

impl Returns {
    pub(crate) fn new(shared: bool) -> Self {
        Self { read: Mutex::default(), shared }
    }

    pub(crate) fn push(&self, place: u64, words: Vec<u32>) {
        self.read.lock().push((place, words));
    }

    /// All of them, once the batch has landed.
    pub(super) fn land(&self) -> Returned {
        let mut read = std::mem::take(&mut *self.read.lock());
        read.sort_unstable_by_key(|(place, _)| *place);
        Returned { read: Mutex::new(read), shared: self.shared }
    }
}

/// What a landed batch has read, until its readings ask for it.
#[derive(Debug)]
pub(crate) struct Returned {
    read: Mutex<Vec<(u64, Vec<u32>)>>,
    shared: bool,
}

impl Returned {
    /// Another copy of one read.
    pub(super) fn copy<T: bytemuck::Pod>(&self, place: u64, bytes: usize) -> Result<Vec<T>> {
        self.with(place, |words| elements(words, bytes))?
    }

    /// One read for good: moved, where elements lie like words.
    pub(super) fn take<T: bytemuck::Pod>(&self, place: u64, bytes: usize) -> Result<Vec<T>> {
        if self.shared {
            return self.copy(place, bytes);
        }
        let words = self.with(place, std::mem::take)?;
        if words.len() * 4 != bytes {
            return elements(&words, bytes);
        }
        bytemuck::try_cast_vec(words).or_else(|(_, words)| elements(&words, bytes))
    }

    fn with<R>(&self, place: u64, then: impl FnOnce(&mut Vec<u32>) -> R) -> Result<R> {
        let mut read = self.read.lock();
        match read.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(index) => Ok(then(&mut read[index].1)),
            Err(_) => Err(Error::internal("a batch landed without the data it reads")),
        }
    }
}

fn elements<T: bytemuck::Pod>(words: &[u32], bytes: usize) -> Result<Vec<T>> {
    host::collect(&bytemuck::cast_slice::<u32, u8>(words)[..bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_found_by_its_place_whatever_the_type() -> Result<()> {
        let returns = Returns::default();
        returns.push(8, vec![3, 4]);
        returns.push(0, vec![u32::from_ne_bytes([1, 2, 3, 0])]);
        let landed = returns.land();
        assert_eq!(landed.copy::<u8>(0, 3)?, [1, 2, 3]);
        assert_eq!((landed.copy::<u32>(8, 8)?, landed.copy::<u32>(8, 8)?), (vec![3, 4], vec![3, 4]));
        assert_eq!(landed.take::<u8>(0, 3)?, [1, 2, 3]);
        assert_eq!(landed.take::<[u32; 2]>(8, 8)?, [[3, 4]]);
        assert!(landed.copy::<u32>(16, 4).is_err());
        Ok(())
    }
}
