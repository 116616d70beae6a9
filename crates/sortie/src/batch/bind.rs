//! What can be bound, copied, written and read: whole buffers, slices of them, and slots of the batch.

use std::{fmt, marker::PhantomData, sync::Arc};

use bytemuck::Pod;

use crate::memory::{Block, Buffer, Slice, Stretch};

/// Something that a kernel's binding can be: `&Buffer<T>`, a [`Slice`] of one, or a [`Slot`].
///
/// The crate's own types implement it; there is nothing to implement outside.
pub trait Bind {
    #[doc(hidden)]
    fn place(&self) -> Place<'_>;
}

/// A [`Bind`] whose element type is known, so that what is written to or read from it is checked by the compiler.
pub trait Typed: Bind {
    /// What it holds.
    type Item: Pod;
}

/// Where something bindable lies.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub(super) of: Of<'a>,
    pub(super) stretch: Stretch,
}

impl Place<'_> {
    /// Elements from a byte of a slot on.
    pub(crate) fn in_slot<T>(batch: u64, index: u32, start: u64, len: usize) -> Self {
        let first = usize::try_from(start).unwrap_or(usize::MAX) / size_of::<T>();
        let stretch = Stretch { start: first, end: first + len, len: first + len, size: size_of::<T>() };
        Place { of: Of::Slot { batch, index }, stretch }
    }

    pub(crate) fn elements(&self) -> usize {
        self.stretch.end.saturating_sub(self.stretch.start)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// A user's buffer; no block when it has no elements.
    Block { block: Option<&'a Arc<Block>>, device: u64 },
    /// A slot of a batch.
    Slot { batch: u64, index: u32 },
}

impl<T: Pod> Bind for Buffer<T> {
    fn place(&self) -> Place<'_> {
        Place { of: of(self), stretch: Stretch::whole::<T>(self.len()) }
    }
}

impl<T: Pod> Bind for Slice<'_, T> {
    fn place(&self) -> Place<'_> {
        Place { of: of(self.buffer()), stretch: self.stretch() }
    }
}

fn of<T: Pod>(buffer: &Buffer<T>) -> Of<'_> {
    Of::Block { block: buffer.block(), device: buffer.device_id() }
}

impl<T: Pod> Typed for Buffer<T> {
    type Item = T;
}

impl<T: Pod> Typed for Slice<'_, T> {
    type Item = T;
}

impl<B: Bind + ?Sized> Bind for &B {
    fn place(&self) -> Place<'_> {
        (**self).place()
    }
}

impl<B: Typed + ?Sized> Typed for &B {
    type Item = B::Item;
}

/// Memory that lives only as long as its batch: scratch, made by [`Batch::scratch`](crate::Batch::scratch).
///
/// Just a name: copy it around while recording. Scratch reads as zero where nothing has been written.
pub struct Slot<T> {
    pub(super) batch: u64,
    pub(super) index: u32,
    pub(super) len: usize,
    pub(super) elements: PhantomData<fn() -> T>,
}

impl<T> Slot<T> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Pod> Bind for Slot<T> {
    fn place(&self) -> Place<'_> {
        Place { of: Of::Slot { batch: self.batch, index: self.index }, stretch: Stretch::whole::<T>(self.len) }
    }
}

impl<T: Pod> Typed for Slot<T> {
    type Item = T;
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot<{}>#{}[{}]", std::any::type_name::<T>(), self.index, self.len)
    }
}
