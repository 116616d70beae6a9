//! Device memory that the user owns.
//!
//! A [`Buffer`] keeps its device open. Its block does not: submissions in flight keep blocks and their pool alive, but
//! not the device.

use std::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
    panic::Location,
    sync::Arc,
};

use bytemuck::Pod;

use super::{Device, DeviceCore};
use crate::{
    error::{Error, ErrorKind, Result},
    memory::{Block, ElementRange, Usage, bytes_of, element_bytes, index},
};

/// Device memory holding `len` elements of a plain type. Cloning it makes another handle to the same memory.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
/// assert_eq!((x.len(), x.slice(1..3).len()), (4, 2));
/// x.slice(..2).write(&[5.0, 6.0])?;
/// assert_eq!(x.download()?, [5.0, 6.0, 3.0, 4.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Buffer<{}>[{len}]", std::any::type_name::<T>())]
#[repr(C)]
pub struct Buffer<T> {
    pub(crate) memory: BufferMemory,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

/// The memory of a buffer, whatever its elements are.
// In this order: recording takes the address of the block, which equals that of the buffer.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct BufferMemory {
    /// `None` for no elements: device buffers cannot have length 0.
    pub(crate) block: Option<Arc<Block>>,
    /// Its device's id, stored here so that recording need not read `core`.
    pub(crate) device: u64,
    pub(crate) core: Arc<DeviceCore>,
}

/// A part of a [`Buffer`], to bind, copy, write or download.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
/// let tail = x.slice(2..);
/// tail.write(&[30.0, 40.0])?;
/// assert_eq!((tail.len(), tail.download()?), (2, vec![30.0, 40.0]));
/// // A range that does not fit is an error when it is used.
/// assert!(x.slice(3..9).download().is_err());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Slice<{}>[{start}..{end}]", std::any::type_name::<T>())]
pub struct Slice<'a, T> {
    pub(crate) memory: &'a BufferMemory,
    /// Elements of the whole buffer.
    whole: usize,
    start: usize,
    end: usize,
    elements: PhantomData<fn() -> T>,
}

impl Device {
    /// Allocates memory and fills it with these elements.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// // Any plain type that is `bytemuck::Pod`.
    /// let points = device.upload(&[[0.0_f32, 1.0], [2.0, 3.0]])?;
    /// assert_eq!((points.len(), points.download()?[1]), (2, [2.0, 3.0]));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) past the device's buffer limit, [`OutOfMemory`](ErrorKind::OutOfMemory) past
    /// its memory or the budget, [`DeviceLost`](ErrorKind::DeviceLost).
    #[track_caller]
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer<T>> {
        let here = Location::caller();
        let _inside = self.core.backend.enter();
        let placed = |error| self.core.backend.explain(error).at(here);
        let buffer = Buffer::take(&self.core, data.len()).map_err(placed)?;
        if let Some(block) = &buffer.memory.block {
            self.core.backend.upload(block, bytemuck::cast_slice(data)).map_err(placed)?;
        }
        Ok(buffer)
    }

    /// Allocates memory for `len` elements whose bytes are all zero.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let sums = device.zeros::<u32>(1000)?;
    /// assert_eq!(sums.download()?, [0; 1000]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::upload`].
    #[track_caller]
    pub fn zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        let here = Location::caller();
        let _inside = self.core.backend.enter();
        let placed = |error| self.core.backend.explain(error).at(here);
        let buffer = Buffer::take(&self.core, len).map_err(placed)?;
        if let Some(block) = buffer.memory.block.as_ref().filter(|block| !block.fresh()) {
            self.core.backend.zero(block).map_err(placed)?;
        }
        Ok(buffer)
    }

    /// Uses an application's `wgpu::Buffer`. It must belong to this device: created by [`Device::wgpu`]'s device, or by
    /// the one given to [`Device::from_wgpu`]. A use that its usage flags do not allow is an error. Importing one
    /// buffer twice is fine: hazards are still found.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions, wgpu};
    ///
    /// # let owner = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    /// # let (gpu, queue) = owner.wgpu().expect("it is wgpu's");
    /// let theirs = gpu.create_buffer(&wgpu::BufferDescriptor {
    ///     label: None,
    ///     size: 4000,
    ///     usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
    ///     mapped_at_creation: false,
    /// });
    /// let device = Device::from_wgpu(gpu.clone(), queue.clone())?;
    /// let ours = device.import::<f32>(theirs)?;
    /// assert_eq!(ours.len(), 1000);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on a device that is not wgpu's; [`Shape`](ErrorKind::Shape) if its size
    /// is not a multiple of 4 or of the element size. A buffer of another device is detected when it is used, if both
    /// devices come from one `wgpu::Instance`. Across instances wgpu itself cannot distinguish buffers: a write may go
    /// to the wrong buffer, or wgpu panics.
    #[track_caller]
    pub fn import<T: Pod>(&self, buffer: wgpu::Buffer) -> Result<Buffer<T>> {
        let here = Location::caller();
        let bytes = buffer.size();
        let block = self.core.backend.import(buffer).map_err(|error| error.at(here))?;
        let size = element_bytes::<T>().map_err(|error| error.at(here))?;
        if !bytes.is_multiple_of(4) {
            let message = format!("import: a buffer of {bytes} bytes, which is no multiple of 4");
            return Err(Error::new(ErrorKind::Shape, message).at(here));
        }
        if !bytes.is_multiple_of(size) {
            let message =
                format!("import: a buffer of {bytes} bytes does not hold a whole number of elements of {size} bytes");
            return Err(Error::new(ErrorKind::Shape, message).at(here));
        }
        let len =
            usize::try_from(bytes / size).map_err(|_| Error::too_large("elements", bytes / size, usize::MAX as u64))?;
        let block = (len > 0).then_some(block);
        Ok(Buffer::new(&self.core, block, len))
    }
}

impl<T: Pod> Buffer<T> {
    getters! { self:
        /// Number of elements.
        len: usize = self.len;

        /// Whether it has no elements.
        is_empty: bool = self.len == 0;
    }

    /// A part of it. A range that does not fit is reported as an error by the operation that uses the slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice<'_, T> {
        let (start, end) = bounds(range, self.len);
        Slice { memory: &self.memory, whole: self.len, start, end, elements: PhantomData }
    }

    /// The same memory as elements of another type, bit by bit. Bytes after the last whole element are left out. (To
    /// convert numbers, [`cast`](crate::Tensor::cast) a tensor.)
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1.0_f32, 2.0])?;
    /// let bits = x.reinterpret::<u32>();
    /// assert_eq!(bits.download()?, [1.0_f32.to_bits(), 2.0_f32.to_bits()]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn reinterpret<U: Pod>(&self) -> Buffer<U> {
        let len = (self.len * size_of::<T>()).checked_div(size_of::<U>()).unwrap_or_default();
        Buffer { memory: self.memory.clone(), len, elements: PhantomData }
    }

    /// Overwrites all elements, in order with the batches submitted before and after.
    ///
    /// # Errors
    /// [`Shape`](ErrorKind::Shape) if the lengths differ, [`DeviceLost`](ErrorKind::DeviceLost).
    #[track_caller]
    pub fn write(&self, data: &[T]) -> Result<()> {
        self.slice(..).write(data)
    }

    /// A buffer over a whole block.
    pub(crate) fn of(core: &Arc<DeviceCore>, block: Arc<Block>) -> Self {
        let len = index(block.bytes()) / size_of::<T>().max(1);
        Self::new(core, Some(block), len)
    }

    fn new(core: &Arc<DeviceCore>, block: Option<Arc<Block>>, len: usize) -> Self {
        let memory = BufferMemory { block, device: core.id, core: core.clone() };
        Self { memory, len, elements: PhantomData }
    }

    fn take(core: &Arc<DeviceCore>, len: usize) -> Result<Self> {
        core.lost.check()?;
        let bytes = bytes_of::<T>(len)?;
        let block = match bytes {
            0 => None,
            _ => {
                let raw = core.take_memory(bytes, None)?;
                Some(Block::owned(core.pool.clone(), raw, bytes.next_multiple_of(4)))
            }
        };
        Ok(Self::new(core, block, len))
    }
}

impl<'a, T: Pod> Slice<'a, T> {
    getters! { self:
        /// Number of elements.
        len: usize = self.end.saturating_sub(self.start);

        /// Whether it has no elements.
        is_empty: bool = self.len() == 0;
    }

    /// Overwrites these elements, in order with the batches submitted before and after.
    ///
    /// # Errors
    /// [`Shape`](ErrorKind::Shape) if the lengths differ, the range does not fit, or its bytes are not aligned to 4
    /// (except at the buffer's end); [`Bindings`](ErrorKind::Bindings) if an imported buffer lacks `COPY_DST`;
    /// [`DeviceLost`](ErrorKind::DeviceLost).
    #[track_caller]
    pub fn write(&self, data: &[T]) -> Result<()> {
        let here = Location::caller();
        self.write_bytes(data).map_err(|error| error.at(here))
    }

    fn write_bytes(&self, data: &[T]) -> Result<()> {
        if data.len() != self.len() {
            let message = format!("write: {} elements into {}", data.len(), self.len());
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let range = self.elements().bytes()?;
        let Some(block) = &self.memory.block else { return Ok(()) };
        if range.is_empty() {
            return Ok(());
        }
        let core = &self.memory.core;
        let _inside = core.backend.enter();
        core.lost.check()?;
        if !block.allows(Usage::CopyTo) {
            return Err(Error::new(ErrorKind::Bindings, "write: the imported buffer was made without COPY_DST"));
        }
        let whole = range == (0..block.bytes());
        core.backend
            .write(block, range.start, bytemuck::cast_slice(data), whole)
            .map_err(|error| Block::blame_import([block], core.backend.explain(error)))
    }

    pub(crate) fn elements(&self) -> ElementRange {
        ElementRange { start: self.start, end: self.end, len: self.whole, size: size_of::<T>() }
    }

    /// The same bytes as elements of another type. A start that is no multiple of its size is an error where the slice
    /// is used, and so is a length that is none.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let pairs = device.upload(&[[1_u32, 2], [3, 4], [5, 6]])?;
    /// assert_eq!(pairs.slice(1..).reinterpret::<u32>().download()?, [3, 4, 5, 6]);
    /// assert!(pairs.slice(1..2).reinterpret::<[u32; 4]>().download().is_err()); // byte 8 begins no element of 16 bytes
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn reinterpret<U: Pod>(&self) -> Slice<'a, U> {
        let ElementRange { start, end, len, .. } = self.elements().in_elements_of::<U>();
        Slice { memory: self.memory, whole: len, start, end, elements: PhantomData }
    }
}

/// The start and the end of a range of something of length `len`.
pub(crate) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    (start, end)
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), len: self.len, elements: PhantomData }
    }
}

impl<T> Clone for Slice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<'_, T> {}
