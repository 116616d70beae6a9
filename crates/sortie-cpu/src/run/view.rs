//! Memory during a run: views of buffers and of workgroup memory.

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

/// A word of memory.
pub(crate) trait Word {
    fn get(&self) -> u32;
    fn set(&self, value: u32);
    /// Changes the word. Returns what it was.
    fn update(&self, change: impl Fn(u32) -> u32) -> u32;
}

impl Word for u32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        *self
    }

    fn set(&self, _: u32) {
        unreachable!("read-only memory is never written: checked by naga")
    }

    fn update(&self, _: impl Fn(u32) -> u32) -> u32 {
        unreachable!("read-only memory is never written: checked by naga")
    }
}

impl Word for Cell<u32> {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.get()
    }

    #[inline(always)]
    fn set(&self, value: u32) {
        self.set(value);
    }

    #[inline(always)]
    fn update(&self, change: impl Fn(u32) -> u32) -> u32 {
        self.replace(change(self.get()))
    }
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, value: u32) {
        self.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn update(&self, change: impl Fn(u32) -> u32) -> u32 {
        let changed = self.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(change(old)));
        changed.unwrap_or_else(|old| old)
    }
}

/// The words of a buffer from `start` on. Out of bounds, reads return `None` and writes do nothing.
pub(crate) struct Words<'a, W> {
    pub(crate) words: &'a [W],
    pub(crate) start: usize,
}

impl<W> Clone for Words<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Words<'_, W> {}

impl<'a, W: Word> Words<'a, W> {
    #[inline(always)]
    fn word(self, at: usize) -> Option<&'a W> {
        self.words.get(at.wrapping_sub(self.start))
    }

    /// Several adjacent words, if all are in bounds.
    #[inline(always)]
    fn several<const N: usize>(self, at: usize) -> Option<&'a [W; N]> {
        self.words.get(at.wrapping_sub(self.start)..)?.first_chunk()
    }

    #[inline(always)]
    pub(crate) fn get(self, at: usize) -> Option<u32> {
        self.word(at).map(W::get)
    }

    #[inline(always)]
    pub(crate) fn put(self, at: usize, value: u32) {
        if let Some(word) = self.word(at) {
            word.set(value);
        }
    }

    #[inline(always)]
    pub(crate) fn update(self, at: usize, change: impl Fn(u32) -> u32) -> Option<u32> {
        self.word(at).map(|word| word.update(change))
    }

    /// Reads several adjacent words, if all are in bounds.
    #[inline(always)]
    pub(crate) fn array<const N: usize>(self, at: usize) -> Option<[u32; N]> {
        let mut values = [0; N];
        values.iter_mut().zip(self.several::<N>(at)?).for_each(|(value, word)| *value = word.get());
        Some(values)
    }

    /// Writes several adjacent words, if all are in bounds. Returns whether they are.
    #[inline(always)]
    pub(crate) fn put_array<const N: usize>(self, at: usize, values: &[u32; N]) -> bool {
        let words = self.several::<N>(at);
        words.into_iter().flatten().zip(values).for_each(|(word, value)| word.set(*value));
        words.is_some()
    }
}
