//! Tensor operations: lazy, checked while they are recorded, fused when they are planned.
//!
//! A [`Tensor`] names the result of an operation of a batch. Planning decides which operations share a kernel, and
//! whether a tensor is ever in memory (`sortie-plan`, module `fuse`).

mod arrange;
mod map;
mod products;
mod reduce;

pub use self::map::Signed;

use std::{fmt, marker::PhantomData, panic::Location};

use self::sealed::Sealed;

use bytemuck::Pod;
use smallvec::SmallVec;
pub(crate) use sortie_plan::{ElementType, Shape, TensorRef};
use sortie_plan::{Function, SlotId, TensorKind, TensorOp};

use crate::{
    batch::{Batch, Bind, BindTarget, Typed},
    error::{Error, ErrorKind, Result},
};

/// Element types of tensors: `f32`, [`half::f16`], `u32` and `i32`.
///
/// An `f16` is stored in two bytes and computed in `f32`: every operation rounds its result.
///
/// ```
/// use sortie::{Batch, Tensor, tensor::Element};
///
/// fn cube<T: Element>(batch: &mut Batch, x: Tensor<T>) -> Tensor<T> {
///     let square = batch.mul(x, x);
///     batch.mul(square, x)
/// }
/// # let device = sortie::Device::cpu()?;
/// let mut batch = device.batch();
/// let x = batch.upload(&[-2_i32, 3], [2]);
/// let y = cube(&mut batch, x);
/// let y = batch.read(y);
/// batch.submit()?;
/// assert_eq!(y.wait()?, [-8, 27]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Element: Pod + sealed::Sealed {}

mod sealed {
    pub trait Sealed: bytemuck::Pod {
        const KIND: sortie_plan::ElementType;

        /// As a scalar argument of a kernel: the bits of the type it is computed in.
        fn word(self) -> u32;
    }
}

impl Element for f32 {}
impl Element for half::f16 {}
impl Element for u32 {}
impl Element for i32 {}

impl Sealed for f32 {
    const KIND: ElementType = ElementType::F32;

    fn word(self) -> u32 {
        self.to_bits()
    }
}

impl Sealed for half::f16 {
    const KIND: ElementType = ElementType::F16;

    fn word(self) -> u32 {
        self.to_f32().to_bits()
    }
}

impl Sealed for u32 {
    const KIND: ElementType = ElementType::U32;

    fn word(self) -> u32 {
        self
    }
}

impl Sealed for i32 {
    const KIND: ElementType = ElementType::I32;

    fn word(self) -> u32 {
        self.cast_unsigned()
    }
}

/// Floating-point elements: `f32` and [`half::f16`].
///
/// ```
/// use sortie::{Batch, Tensor, half::f16, tensor::Float};
///
/// fn linear<T: Float>(batch: &mut Batch, x: Tensor<T>, w: Tensor<T>, b: Tensor<T>) -> Tensor<T> {
///     let y = batch.matmul(x, w);
///     batch.add(y, b)
/// }
/// # let device = sortie::Device::cpu()?;
/// let mut batch = device.batch();
/// let x = batch.upload(&[1.0, 2.0].map(f16::from_f32), [1, 2]);
/// let w = batch.upload(&[3.0, 4.0].map(f16::from_f32), [2, 1]);
/// let b = batch.upload(&[f16::ONE], [1]);
/// let y = linear(&mut batch, x, w, b);
/// let y = batch.read(y);
/// batch.submit()?;
/// assert_eq!(y.wait()?, [f16::from_f32(12.0)]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Float: Element {}

impl Float for f32 {}
impl Float for half::f16 {}

/// A tensor of one batch: a copyable name, valid while recording.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let mut batch = device.batch();
/// let x = batch.upload(&[1.0_f32, -2.0, 3.0, -4.0], [2, 2]);
/// let y = batch.relu(x);
/// let y = batch.matmul(y, x);
/// assert_eq!(y.shape(), [2, 2]);
/// let y = batch.read(y);
/// batch.submit()?;
/// assert_eq!(y.wait()?, [1.0, -2.0, 3.0, -6.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub struct Tensor<T> {
    batch: u64,
    value: TensorRef,
    /// Its operation was refused, so operations on it report no further mistakes.
    refused: bool,
    elements: PhantomData<fn() -> T>,
}

impl<T> Tensor<T> {
    /// The lengths of its dimensions, the outermost first.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.value.shape.dims().iter().map(|dim| *dim as usize).collect()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.value.shape.len() as usize
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.value.shape.is_empty()
    }

    /// Its slot, if it belongs to this batch and was not refused.
    pub(crate) fn slot_of(&self, batch: u64) -> Option<SlotId> {
        (self.batch == batch && !self.refused).then_some(self.value.slot)
    }

    /// The same tensor with another element type.
    fn retyped<U>(self) -> Tensor<U> {
        Tensor { batch: self.batch, value: self.value, refused: self.refused, elements: PhantomData }
    }

    /// The same memory with another shape of as many elements.
    fn with_shape(self, shape: Shape) -> Self {
        Self { value: TensorRef { shape, ..self.value }, ..self }
    }
}

impl<T> Clone for Tensor<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tensor<T> {}

impl<T> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{}>{}", self.value.element, self.value.shape)
    }
}

impl<T: Element> Bind for Tensor<T> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget::in_slot::<T>(self.batch, self.value.slot.0, self.value.start, self.len())
    }
}

impl<T: Element> Typed for Tensor<T> {
    type Item = T;
}

/// An operand of any element type.
#[derive(Clone, Copy)]
struct Operand {
    batch: u64,
    value: TensorRef,
    refused: bool,
}

impl<T> From<Tensor<T>> for Operand {
    fn from(tensor: Tensor<T>) -> Self {
        Self { batch: tensor.batch, value: tensor.value, refused: tensor.refused }
    }
}

impl Batch {
    /// Uploads data into a tensor of this batch.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1_u32, 2, 3, 4, 5, 6], [2, 3]);
    /// assert_eq!((x.shape(), x.len()), (vec![2, 3], 6));
    /// let y = batch.upload(&[1_u32, 2], [3]); // a mistake, which `submit` reports
    /// assert!(batch.submit().is_err());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn upload<T: Element>(&mut self, data: &[T], shape: impl AsRef<[usize]>) -> Tensor<T> {
        let shape = shape.as_ref();
        let made = checked(shape, data.len(), "upload");
        let tensor = self.make::<T>("upload", made, |_, _| Ok(()));
        if !tensor.refused && !data.is_empty() {
            self.write(tensor, data);
        }
        tensor
    }

    /// A tensor whose data each run of a replay provides.
    #[track_caller]
    pub(crate) fn input_tensor<T: Element>(&mut self, shape: &[usize]) -> Tensor<T> {
        self.make_in::<T>("input", shape_of(shape, "input"), Self::input_slot, |_, _| Ok(()))
    }

    /// A view of a buffer, a slice of one or scratch as a tensor, without a copy. Exception: operands of `matmul`,
    /// `gather` tables and `concat` parts that start at an offset the device cannot bind (usually not a multiple of 256
    /// bytes) are copied when they are used.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let weights = device.upload(&[1.0_f32; 12])?; // once, for any number of batches
    /// let mut batch = device.batch();
    /// let weights = batch.tensor(&weights, [3, 4]);
    /// let total = batch.sum(weights, &[0, 1]);
    /// let total = batch.read(total);
    /// batch.submit()?;
    /// assert_eq!(total.wait()?, [12.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn tensor<B: Typed>(&mut self, memory: B, shape: impl AsRef<[usize]>) -> Tensor<B::Item>
    where
        B::Item: Element,
    {
        let place = memory.place();
        let made = checked(shape.as_ref(), place.elements(), "tensor");
        let found = made.and_then(|shape| Ok((shape, self.memory_of(&place)?)));
        match found {
            Ok((shape, Some((slot, start)))) => {
                let value = TensorRef { slot, start, shape, element: B::Item::KIND };
                self.named(value, false)
            }
            Ok((shape, None)) => self.make("tensor", Ok(shape), |_, _| Ok(())),
            Err(error) => self.make("tensor", Err(error), |_, _| Ok(())),
        }
    }

    /// Stores a tensor in a buffer, or a slice of one, of as many elements, so that it outlives the batch. If possible
    /// it is computed there directly, without a copy.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let state = device.upload(&[1.0_f32, 2.0, 3.0])?;
    /// let next = device.zeros::<f32>(3)?;
    /// let mut batch = device.batch();
    /// let x = batch.tensor(&state, [3]);
    /// let y = batch.mul(x, x);
    /// batch.store(y, &next);
    /// batch.submit()?;
    /// assert_eq!(next.download()?, [1.0, 4.0, 9.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn store<T: Element>(&mut self, tensor: Tensor<T>, to: impl Typed<Item = T>) {
        if !tensor.refused {
            self.copy(tensor, to);
        }
    }

    /// Labels the last recorded operation, in errors and profiles.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let profile = batch.profile();
    /// let x = batch.upload(&[1.0_f32; 4], [2, 2]);
    /// let y = batch.matmul(x, x);
    /// batch.label("attention scores");
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(profile.wait()?.ops()[1].label(), "attention scores");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn label(&mut self, label: &str) {
        self.label_last(label);
    }

    fn named<T>(&self, value: TensorRef, refused: bool) -> Tensor<T> {
        Tensor { batch: self.id(), value, refused, elements: PhantomData }
    }

    /// Allocates memory for a tensor and records the op that fills it.
    #[track_caller]
    fn make<T: Element>(
        &mut self,
        what: &str,
        shape: Result<Shape>,
        fill: impl FnOnce(&mut Self, TensorRef) -> Result<()>,
    ) -> Tensor<T> {
        self.make_in(what, shape, Self::tensor_slot, fill)
    }

    /// As [`Batch::make`], with this kind of memory.
    #[track_caller]
    fn make_in<T: Element>(
        &mut self,
        what: &str,
        shape: Result<Shape>,
        slot: impl FnOnce(&mut Self, u64) -> SlotId,
        fill: impl FnOnce(&mut Self, TensorRef) -> Result<()>,
    ) -> Tensor<T> {
        let placed = shape.and_then(|shape| {
            let bytes = u64::from(shape.len()) * T::KIND.bytes();
            let limit = self.most_bytes();
            if bytes > limit {
                return Err(Error::too_large(format!("{what}: bytes of a tensor of shape {shape}"), bytes, limit));
            }
            let slot = slot(self, bytes);
            let value = TensorRef { slot, start: 0, shape, element: T::KIND };
            fill(self, value)?;
            Ok(value)
        });
        match placed {
            Ok(value) => self.named(value, false),
            Err(error) => {
                self.refuse_tensor(error);
                self.refused()
            }
        }
    }

    /// A placeholder for a tensor that could not be created.
    fn refused<T: Element>(&mut self) -> Tensor<T> {
        let slot = self.tensor_slot(4);
        let value = TensorRef { slot, start: 0, shape: Shape::default(), element: T::KIND };
        self.named(value, true)
    }

    /// A placeholder for the result, if an input cannot be used.
    #[track_caller]
    fn unusable<T: Element>(&mut self, what: &str, inputs: &[Operand]) -> Option<Tensor<T>> {
        if inputs.iter().any(|input| input.refused) {
            return Some(self.refused());
        }
        if inputs.iter().any(|input| input.batch != self.id()) {
            let error = Error::new(
                ErrorKind::Bindings,
                format!(
                    "{what}: a tensor of another batch; a tensor is valid until its batch is submitted: `store` it into a \
                 buffer there, and make a `tensor` of that buffer here"
                ),
            );
            return Some(self.make(what, Err(error), |_, _| Ok(())));
        }
        None
    }

    /// Records one operation.
    #[track_caller]
    fn operate<T: Element>(
        &mut self,
        what: &str,
        kind: TensorKind,
        inputs: &[Operand],
        scalars: &[u32],
        shape: Result<Shape>,
    ) -> Tensor<T> {
        if let Some(unusable) = self.unusable(what, inputs) {
            return unusable;
        }
        let mut inputs: SmallVec<[Operand; 3]> = inputs.into();
        for (side, input) in inputs.iter_mut().enumerate() {
            let whole = matches!(kind, TensorKind::Matmul { .. } | TensorKind::Concat(_))
                || (kind == TensorKind::Gather && side == 0);
            if whole && !self.is_bindable(input.value.start) {
                *input = self.bindable(what, *input);
            }
        }
        // Outside the closure, because a closure has its own caller location.
        let here = Location::caller();
        self.make(what, shape, |batch, output| {
            let nothing = TensorRef { slot: SlotId(0), start: 0, shape: Shape::default(), element: ElementType::F32 };
            let mut all = [nothing; 3];
            all.iter_mut().zip(&inputs).for_each(|(to, from)| *to = from.value);
            let count = u8::try_from(inputs.len()).unwrap_or_else(|_| unreachable!("at most three"));
            batch.record_tensor(TensorOp { kind, inputs: all, count, output }, scalars, here);
            Ok(())
        })
    }

    /// A copy of a tensor that starts where it cannot be bound.
    #[track_caller]
    fn bindable(&mut self, what: &str, input: Operand) -> Operand {
        let (shape, copy) = (Ok(input.value.shape), TensorKind::Broadcast);
        match input.value.element {
            ElementType::F32 => self.operate::<f32>(what, copy, &[input], &[], shape).into(),
            ElementType::F16 => self.operate::<half::f16>(what, copy, &[input], &[], shape).into(),
            ElementType::U32 => self.operate::<u32>(what, copy, &[input], &[], shape).into(),
            ElementType::I32 => self.operate::<i32>(what, copy, &[input], &[], shape).into(),
        }
    }

    #[track_caller]
    fn unary<T: Element>(&mut self, what: &str, f: Function, x: Tensor<T>, scalars: &[u32]) -> Tensor<T> {
        self.operate(what, TensorKind::Map(f), &[x.into()], scalars, Ok(x.value.shape))
    }
}

/// A shape with this number of elements.
fn checked(dims: &[usize], elements: usize, what: &str) -> Result<Shape> {
    let shape = shape_of(dims, what)?;
    if shape.len() as usize != elements {
        let message = format!("{what}: {elements} elements do not make a tensor of shape {shape}");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    Ok(shape)
}

fn shape_of(dims: &[usize], what: &str) -> Result<Shape> {
    Shape::new(dims).ok_or_else(|| {
        let most = sortie_plan::RANK;
        if dims.len() > most {
            let message = format!("{what}: {dims:?} is no shape: it has at most {most} dimensions");
            return Error::new(ErrorKind::Shape, message);
        }
        // If a length is 0, a single other length is too large.
        let lengths = dims.iter().filter(|length| **length > 0);
        let elements = lengths.fold(1_u64, |product, length| product.saturating_mul(*length as u64));
        Error::too_large(format!("{what}: elements of {dims:?}"), elements, u64::from(u32::MAX))
    })
}

fn wrong_shapes(what: &str, left: Shape, right: Shape) -> Error {
    Error::new(ErrorKind::Shape, format!("{what}: left is {left} but right is {right}"))
}
