//! Memory as a running kernel sees it.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

/// A buffer during a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'a> {
    /// Read-only.
    Read(&'a [u32]),
    /// Accessed only by this thread: the words from `start` on.
    Own { words: &'a [Cell<u32>], start: u32, total: u32 },
    /// Accessed by other threads, too.
    Shared(&'a [AtomicU32]),
}

impl View<'_> {
    /// Words of the whole buffer.
    pub(crate) fn len(&self) -> u32 {
        let len = match self {
            Self::Read(words) => words.len(),
            Self::Own { total, .. } => return *total,
            Self::Shared(words) => words.len(),
        };
        u32::try_from(len).unwrap_or(u32::MAX)
    }
}

/// Words that can be read and written. Out of bounds, reads return `None` and writes do nothing.
pub(crate) trait Words: Copy {
    fn get(self, at: usize) -> Option<u32>;
    fn put(self, at: usize, value: u32);
    /// Several at once, if all are there.
    fn array<const N: usize>(self, at: usize) -> Option<[u32; N]>;
    /// Several at once, if all are there; says whether they were.
    fn put_array<const N: usize>(self, at: usize, values: &[u32; N]) -> bool;
    /// Changes a word, and gives what it was.
    fn update(self, at: usize, change: impl Fn(u32) -> u32) -> Option<u32>;
}

impl Words for &[u32] {
    #[inline(always)]
    fn get(self, at: usize) -> Option<u32> {
        <[u32]>::get(self, at).copied()
    }

    #[inline(always)]
    fn put(self, _: usize, _: u32) {
        unreachable!("read-only memory is never written: checked by naga")
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Option<[u32; N]> {
        self.get(at..)?.first_chunk().copied()
    }

    fn put_array<const N: usize>(self, _: usize, _: &[u32; N]) -> bool {
        unreachable!("read-only memory is never written: checked by naga")
    }

    fn update(self, _: usize, _: impl Fn(u32) -> u32) -> Option<u32> {
        unreachable!("read-only memory is never written: checked by naga")
    }
}

/// Cells from a start on.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) words: &'a [Cell<u32>],
    pub(crate) start: usize,
}

impl Words for Cells<'_> {
    #[inline(always)]
    fn get(self, at: usize) -> Option<u32> {
        self.words.get(at.wrapping_sub(self.start)).map(Cell::get)
    }

    #[inline(always)]
    fn put(self, at: usize, value: u32) {
        if let Some(word) = self.words.get(at.wrapping_sub(self.start)) {
            word.set(value);
        }
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Option<[u32; N]> {
        let words: &[Cell<u32>; N] = self.words.get(at.wrapping_sub(self.start)..)?.first_chunk()?;
        let mut values = [0; N];
        values.iter_mut().zip(words).for_each(|(value, word)| *value = word.get());
        Some(values)
    }

    #[inline(always)]
    fn put_array<const N: usize>(self, at: usize, values: &[u32; N]) -> bool {
        let words: Option<&[Cell<u32>; N]> =
            self.words.get(at.wrapping_sub(self.start)..).and_then(<[Cell<u32>]>::first_chunk);
        if let Some(words) = words {
            words.iter().zip(values).for_each(|(word, value)| word.set(*value));
        }
        words.is_some()
    }

    #[inline(always)]
    fn update(self, at: usize, change: impl Fn(u32) -> u32) -> Option<u32> {
        let word = self.words.get(at.wrapping_sub(self.start))?;
        let old = word.get();
        word.set(change(old));
        Some(old)
    }
}

impl Words for &[AtomicU32] {
    #[inline(always)]
    fn get(self, at: usize) -> Option<u32> {
        <[AtomicU32]>::get(self, at).map(|word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn put(self, at: usize, value: u32) {
        if let Some(word) = <[AtomicU32]>::get(self, at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Option<[u32; N]> {
        let words: &[AtomicU32; N] = self.get(at..)?.first_chunk()?;
        let mut values = [0; N];
        values.iter_mut().zip(words).for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
        Some(values)
    }

    #[inline(always)]
    fn put_array<const N: usize>(self, at: usize, values: &[u32; N]) -> bool {
        let words: Option<&[AtomicU32; N]> = self.get(at..).and_then(<[AtomicU32]>::first_chunk);
        if let Some(words) = words {
            words.iter().zip(values).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        }
        words.is_some()
    }

    #[inline(always)]
    fn update(self, at: usize, change: impl Fn(u32) -> u32) -> Option<u32> {
        let word = <[AtomicU32]>::get(self, at)?;
        let mut old = word.load(Ordering::Relaxed);
        loop {
            match word.compare_exchange_weak(old, change(old), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(old) => return Some(old),
                Err(now) => old = now,
            }
        }
    }
}
