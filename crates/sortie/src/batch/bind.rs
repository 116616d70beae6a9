//! Types that can be bound, copied, written and read: buffers, slices of them, and slots of the batch.

use std::{any::TypeId, fmt, marker::PhantomData, sync::Arc};

use bytemuck::Pod;

use crate::{
    device::{Buffer, Slice},
    kernel::Scalar,
    memory::{Block, ElementRange},
};

/// A value that can be bound to a kernel: `&Buffer<T>`, a [`Slice`] of one, or a [`Slot`].
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
    /// Element type, if it is a WGSL number.
    pub(super) scalar: Option<Scalar>,
}

/// The WGSL number type of `T`, if it is one. Resolved at compile time.
#[inline]
fn scalar<T: 'static>() -> Option<Scalar> {
    let is = |number: TypeId| TypeId::of::<T>() == number;
    if is(TypeId::of::<f32>()) {
        Some(Scalar::F32)
    } else if is(TypeId::of::<u32>()) {
        Some(Scalar::U32)
    } else if is(TypeId::of::<i32>()) {
        Some(Scalar::I32)
    } else if is(TypeId::of::<half::f16>()) {
        Some(Scalar::F16)
    } else {
        None
    }
}

impl BindTarget<'_> {
    /// `len` elements of a slot, from byte `start` on.
    pub(crate) fn in_slot<T: 'static>(batch: u64, index: u32, start: u64, len: usize) -> Self {
        let first = usize::try_from(start).unwrap_or(usize::MAX) / size_of::<T>();
        let elements = ElementRange { start: first, end: first + len, len: first + len, size: size_of::<T>() };
        BindTarget { of: TargetKind::Slot { batch, index }, elements, scalar: scalar::<T>() }
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
        BindTarget { of: of(self), elements: ElementRange::whole::<T>(self.len()), scalar: scalar::<T>() }
    }
}

impl<T: Pod> Bind for Slice<'_, T> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget { of: of(self.buffer()), elements: self.elements(), scalar: scalar::<T>() }
    }
}

fn of<T: Pod>(buffer: &Buffer<T>) -> TargetKind<'_> {
    TargetKind::Block { block: buffer.block(), device: buffer.device_id() }
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
    fn place(&self) -> BindTarget<'_> {
        let of = TargetKind::Slot { batch: self.batch, index: self.index };
        BindTarget { of, elements: ElementRange::whole::<T>(self.len), scalar: scalar::<T>() }
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
