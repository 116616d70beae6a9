//! Types that can be bound, copied, written and read: buffers, slices of them, and slots of the batch.

use std::{marker::PhantomData, ops::RangeBounds, sync::Arc};

use bytemuck::Pod;

use crate::{
    device::{Buffer, BufferMemory, Slice, bounds},
    kernel::HostNumbers,
    memory::{Block, ElementRange},
};

/// A value that can be bound to a kernel: `&Buffer<T>`, a [`Slice`] of one, a [`Slot`] or a
/// [`Tensor`](crate::Tensor); also one of these with the name of a binding, `("points", &buffer)`.
///
/// Sealed: only types of this crate implement it.
///
/// ```
/// use sortie::Grid;
/// # let device = sortie::Device::cpu()?;
/// # let add = device.kernel("
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read> y: array<f32>;
/// #     @group(0) @binding(2) var<storage, read_write> z: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&z) { z[id.x] = x[id.x] + y[id.x]; }
/// #     }
/// # ")?;
/// let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
/// let batch = device.batch();
/// let sum = batch.scratch::<f32>(2);
/// // A slice from the beginning, all of a buffer, and scratch.
/// batch.dispatch(&add, &[&x.slice(..2), &x, &sum], Grid::items(2));
/// let sum = batch.read(sum);
/// batch.submit()?;
/// assert_eq!(sum.wait()?, [2.0, 4.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Bind {
    #[doc(hidden)]
    fn place(&self) -> BindTarget<'_>;
}

/// A [`Bind`] with a known element type, so the compiler checks the data written to or read from it.
///
/// ```
/// use sortie::{Batch, Reading, batch::Typed};
///
/// /// Reads several of a kind: buffers, slices, scratch, tensors.
/// fn read_all(batch: &Batch, of: &[impl Typed<Item = u32> + Copy]) -> Vec<Reading<u32>> {
///     of.iter().map(|memory| batch.read(*memory)).collect()
/// }
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1_u32, 2, 3])?;
/// let batch = device.batch();
/// let readings = read_all(&batch, &[x.slice(..1), x.slice(1..)]);
/// batch.submit()?;
/// assert_eq!(readings.into_iter().map(|all| all.wait()).collect::<sortie::Result<Vec<_>>>()?, [vec![1], vec![2, 3]]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Typed: Bind {
    /// The element type.
    type Item: Pod;
}

/// The location of a bindable value.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct BindTarget<'a> {
    pub(super) of: TargetKind<'a>,
    pub(super) elements: ElementRange,
    pub(super) numbers: HostNumbers,
    /// The name of the binding that it is for, if it was given.
    pub(super) name: Option<&'a str>,
}

impl BindTarget<'_> {
    /// `len` elements of a slot, from byte `start` on.
    pub(crate) fn in_slot<T: 'static>(batch: u64, index: u32, start: u64, len: usize) -> Self {
        let first = usize::try_from(start).unwrap_or(usize::MAX) / size_of::<T>();
        let elements = ElementRange { start: first, end: first + len, len: first + len, size: size_of::<T>() };
        BindTarget { of: TargetKind::Slot { batch, index }, elements, numbers: HostNumbers::of::<T>(), name: None }
    }

    pub(crate) fn elements(&self) -> usize {
        self.elements.end.saturating_sub(self.elements.start)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TargetKind<'a> {
    /// A user's buffer; no block if it has no elements.
    Block { block: Option<&'a Arc<Block>>, device: u64 },
    /// A slot of a batch.
    Slot { batch: u64, index: u32 },
}

impl<T: Pod> Bind for Buffer<T> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget {
            of: of(&self.memory),
            elements: ElementRange::whole::<T>(self.len()),
            numbers: HostNumbers::of::<T>(),
            name: None,
        }
    }
}

impl<T: Pod> Bind for Slice<'_, T> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget { of: of(self.memory), elements: self.elements(), numbers: HostNumbers::of::<T>(), name: None }
    }
}

#[inline]
fn of(memory: &BufferMemory) -> TargetKind<'_> {
    TargetKind::Block { block: memory.block.as_ref(), device: memory.device }
}

impl<T: Pod> Typed for Buffer<T> {
    type Item = T;
}

impl<T: Pod> Typed for Slice<'_, T> {
    type Item = T;
}

impl<B: Bind + ?Sized> Bind for &B {
    fn place(&self) -> BindTarget<'_> {
        (**self).place()
    }
}

/// A binding by name: `&[&("points", &a), &("labels", &b)]`, in any order.
impl<B: Bind> Bind for (&str, B) {
    fn place(&self) -> BindTarget<'_> {
        BindTarget { name: Some(self.0), ..self.1.place() }
    }
}

/// Memory without an element type, from [`Buffer::untyped`].
#[derive(Clone, Copy, Debug)]
pub struct Untyped<'a>(BindTarget<'a>);

impl Bind for Untyped<'_> {
    fn place(&self) -> BindTarget<'_> {
        self.0
    }
}

impl<T: Pod> Buffer<T> {
    /// Its memory without an element type. It fits every array of a kernel; only its length is checked. For programs
    /// that run kernels they did not write; others [`reinterpret`](Buffer::reinterpret) the buffer.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let kernel = device.kernel("
    ///     struct Particle { place: vec3<f32>, mass: f32, speed: vec3<f32> }
    ///     @group(0) @binding(0) var<storage, read_write> all: array<Particle>;
    ///     @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { all[id.x].mass = 1.0; }
    /// ")?;
    /// let bytes = kernel.bindings()[0].bytes(10).unwrap_or(0); // of ten particles
    /// let memory = device.zeros::<u32>(bytes as usize / 4)?;
    /// let batch = device.batch();
    /// batch.dispatch(&kernel, &[&memory.untyped()], 10);
    /// batch.submit()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn untyped(&self) -> Untyped<'_> {
        Untyped(BindTarget { numbers: HostNumbers::Flat(None), ..self.place() })
    }
}

/// Rows of numbers: a kernel may read them as vectors or structures of such numbers.
pub(crate) struct FlatRows<'a, B>(pub(crate) &'a B);

impl<B: Bind> Bind for FlatRows<'_, B> {
    fn place(&self) -> BindTarget<'_> {
        let place = self.0.place();
        BindTarget { numbers: place.numbers.flat(), ..place }
    }
}

impl<B: Typed + ?Sized> Typed for &B {
    type Item = B::Item;
}

/// Memory that lives only as long as its batch: scratch, made by [`Batch::scratch`](crate::Batch::scratch).
///
/// A copyable name, valid while recording. Scratch reads as zero until it is written.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1_u32, 2, 3])?;
/// let batch = device.batch();
/// let kept = batch.scratch::<u32>(3); // memory from the pool, returned when the batch is done
/// batch.copy(&x, kept);
/// batch.fill(&x, 0);
/// let kept = batch.read(kept);
/// batch.submit()?;
/// assert_eq!((kept.wait()?, x.download()?), (vec![1, 2, 3], vec![0, 0, 0]));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Slot<{}>#{index}[{}]", std::any::type_name::<T>(), self.len())]
pub struct Slot<T> {
    batch: u64,
    index: u32,
    range: ElementRange,
    elements: PhantomData<fn() -> T>,
}

impl<T: Pod> Slot<T> {
    /// All `len` elements of a slot.
    pub(super) fn new(batch: u64, index: u32, len: usize) -> Self {
        Self { batch, index, range: ElementRange::whole::<T>(len), elements: PhantomData }
    }

    /// A part of it. A range that does not fit is a mistake where the slot is used.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let room = batch.scratch::<u32>(4);
    /// batch.fill(room.slice(1..3), 7);
    /// let room = batch.read(room);
    /// batch.submit()?;
    /// assert_eq!(room.wait()?, [0, 7, 7, 0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = bounds(range, self.len());
        // A part may not reach beyond the part that it is taken from.
        let end = if end > self.len() { usize::MAX } else { end };
        let at = |offset: usize| self.range.start.saturating_add(offset);
        Self { range: ElementRange { start: at(start), end: at(end), ..self.range }, ..*self }
    }

    /// The same memory as elements of another type, bit by bit, as [`Slice::reinterpret`].
    #[must_use]
    pub fn reinterpret<U: Pod>(&self) -> Slot<U> {
        Slot { batch: self.batch, index: self.index, range: self.range.in_elements_of::<U>(), elements: PhantomData }
    }
}

impl<T> Slot<T> {
    getters! { self:
        /// Number of elements.
        len: usize = self.range.end.saturating_sub(self.range.start);

        /// Whether it has no elements.
        is_empty: bool = self.len() == 0;
    }
}

impl<T: Pod> Bind for Slot<T> {
    fn place(&self) -> BindTarget<'_> {
        let of = TargetKind::Slot { batch: self.batch, index: self.index };
        BindTarget { of, elements: self.range, numbers: HostNumbers::of::<T>(), name: None }
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
