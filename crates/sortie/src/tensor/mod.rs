//! Tensor operations: lazy, checked while they are recorded, fused when they are planned.
//!
//! A [`Tensor`] names the result of an operation and borrows its batch, so that it cannot be used after `submit`.
//! Planning decides which operations share a kernel, and whether a tensor is ever in memory (`sortie-plan`, module
//! `fuse`).

mod arrange;
mod element;
mod map;
mod operand;
mod operators;
mod products;
mod reduce;

use std::{marker::PhantomData, panic::Location};

use self::{element::Sealed, operand::Argument};
pub use self::{
    element::{Element, Float, Signed},
    operand::Operand,
};

use smallvec::SmallVec;
pub(crate) use sortie_plan::{ElementType, Shape, TensorRef};
use sortie_plan::{SlotId, TensorKind, TensorOp};

use crate::{
    batch::{Batch, Bind, BindTarget, Typed},
    error::{Error, ErrorKind, Result},
    finish::Reading,
};

/// Lengths of dimensions, on the stack: recording does not allocate.
type Dims = SmallVec<[usize; sortie_plan::RANK]>;

/// A tensor of a batch: a copyable handle that borrows the batch it belongs to.
///
/// Operations are methods and operators. They record, and never fail: `submit` returns every mistake with its line.
/// Shapes are broadcast as in `NumPy`. The right side of an elementwise operation is a tensor or a number; `+`, `-`, `*`
/// and `/` also take a number on the left. Numbers are parameters of the generated kernel.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1.0_f32, -2.0, 3.0, -4.0], [2, 2]);
/// let y = x.relu().matmul(x) * 0.5 + 1.0;
/// assert_eq!(y.shape(), [2, 2]);
/// let y = y.read();
/// batch.submit()?;
/// assert_eq!(y.wait()?, [1.5, 0.0, 2.5, -2.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// `submit` and `freeze` take the batch, so a tensor cannot outlive them:
///
/// ```compile_fail,E0505
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1.0_f32], [1]);
/// batch.submit()?; // error[E0505]: cannot move out of `batch` because it is borrowed
/// let y = x + 1.0;
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// ```compile_fail,E0597
/// # let device = sortie::Device::cpu()?;
/// let kept = {
///     let batch = device.batch();
///     batch.tensor_from(&[1.0_f32], [1]) // error[E0597]: `batch` does not live long enough
/// };
/// let y = kept + 1.0;
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// To keep a result, [`read`](Tensor::read) it or [`store`](Tensor::store) it in a buffer. A structure that owns a batch
/// cannot also hold its tensors: it holds their [`TensorId`]s.
#[derive(derive_more::Debug)]
#[debug("Tensor<{}>{}", self.value.element, self.value.shape)]
pub struct Tensor<'b, T> {
    batch: &'b Batch,
    value: TensorRef,
    /// Its operation was refused, so operations on it report no further mistakes.
    refused: bool,
    elements: PhantomData<fn() -> T>,
}

/// Names a tensor without borrowing its batch: [`Batch::at`] returns the tensor.
///
/// ```
/// use sortie::{Batch, Device, tensor::TensorId};
///
/// /// Records as it goes, and keeps what it recorded last.
/// struct Running { batch: Batch, total: TensorId<f32> }
///
/// impl Running {
///     fn add(&mut self, value: f32) {
///         self.total = (self.batch.at(self.total) + value).id();
///     }
/// }
/// let device = Device::cpu()?;
/// let batch = device.batch();
/// let total = batch.tensor_from(&[0.0_f32], [1]).id();
/// let mut running = Running { batch, total };
/// running.add(1.5);
/// running.add(2.0);
/// let total = running.batch.at(running.total).read();
/// running.batch.submit()?;
/// assert_eq!(total.wait()?, [3.5]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("TensorId<{}>{}", self.value.element, self.value.shape)]
pub struct TensorId<T> {
    batch: u64,
    value: TensorRef,
    refused: bool,
    elements: PhantomData<fn() -> T>,
}

impl<'b, T> Tensor<'b, T> {
    getters! { self:
        /// The lengths of its dimensions, the outermost first.
        shape: Vec<usize> = self.value.shape.dims().iter().map(|dim| *dim as usize).collect();

        /// Number of elements.
        len: usize = self.value.shape.len() as usize;

        /// Whether it has no elements.
        is_empty: bool = self.value.shape.is_empty();

        /// The batch it belongs to.
        ///
        /// ```
        /// # let device = sortie::Device::cpu()?;
        /// use sortie::{Buffer, Tensor};
        ///
        /// /// A function over tensors needs no batch among its arguments.
        /// fn linear<'b>(x: Tensor<'b, f32>, weights: &Buffer<f32>, bias: &Buffer<f32>) -> Tensor<'b, f32> {
        ///     let batch = x.batch();
        ///     x.matmul(batch.tensor(weights, [2, 3])) + batch.tensor(bias, [3])
        /// }
        /// let (weights, bias) = (device.upload(&[1.0_f32; 6])?, device.upload(&[0.5_f32; 3])?);
        /// let batch = device.batch();
        /// let y = linear(batch.tensor_from(&[1.0, 2.0], [1, 2]), &weights, &bias).read();
        /// batch.submit()?;
        /// assert_eq!(y.wait()?, [3.5; 3]);
        /// # Ok::<(), sortie::Error>(())
        /// ```
        batch: &'b Batch = self.batch;
    }

    /// Its name, without the borrow of the batch.
    #[must_use]
    pub fn id(&self) -> TensorId<T> {
        TensorId { batch: self.batch.id, value: self.value, refused: self.refused, elements: PhantomData }
    }

    /// The slot of its memory; `None` if it was refused.
    pub(crate) fn slot(&self) -> Option<SlotId> {
        (!self.refused).then_some(self.value.slot)
    }

    /// The same tensor with another element type.
    fn retyped<U>(self) -> Tensor<'b, U> {
        Tensor { batch: self.batch, value: self.value, refused: self.refused, elements: PhantomData }
    }

    /// The same memory with another shape of as many elements.
    fn with_shape(self, shape: Shape) -> Self {
        Self { value: TensorRef { shape, ..self.value }, ..self }
    }
}

impl<T: Element> Tensor<'_, T> {
    /// Reads it. The data is available when the batch has completed.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let squares = batch.tensor_from(&[1_u32, 2, 3], [3]);
    /// let squares = (squares * squares).read();
    /// batch.submit()?;
    /// assert_eq!(squares.wait()?, [1, 4, 9]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn read(self) -> Reading<T> {
        self.batch.read(self)
    }

    /// Stores it in a buffer, or a slice of one, of as many elements, so that it outlives the batch. If possible it is
    /// computed there directly, without a copy.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let state = device.upload(&[1.0_f32, 2.0, 3.0])?;
    /// let next = device.zeros::<f32>(3)?;
    /// let batch = device.batch();
    /// let x = batch.tensor(&state, [3]);
    /// (x * x).store(&next);
    /// batch.submit()?;
    /// assert_eq!(next.download()?, [1.0, 4.0, 9.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn store(self, to: impl Typed<Item = T>) {
        if !self.refused {
            self.batch.copy(self, to);
        }
    }

    /// Labels the operation that made it, in errors and profiles.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let profile = batch.profile();
    /// let x = batch.tensor_from(&[1.0_f32; 4], [2, 2]);
    /// let scores = x.matmul(x).label("attention scores").read();
    /// batch.submit()?;
    /// assert_eq!(profile.wait()?.ops()[1].label(), "attention scores");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn label(self, label: &str) -> Self {
        self.batch.label_op(self.slot(), label);
        self
    }
}

impl<T> Clone for Tensor<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tensor<'_, T> {}

impl<T> Clone for TensorId<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorId<T> {}

impl<T: Element> Bind for Tensor<'_, T> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget::in_slot::<T>(self.batch.id, self.value.slot.0, self.value.start, self.len())
    }
}

impl<T: Element> Typed for Tensor<'_, T> {
    type Item = T;
}

impl Batch {
    /// A tensor with this data, which is copied now.
    ///
    /// If the batch is [frozen](Batch::freeze), the data is written once, when it is frozen, and not in every run.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1_u32, 2, 3, 4, 5, 6], [2, 3]);
    /// assert_eq!((x.shape(), x.len()), (vec![2, 3], 6));
    /// let y = batch.tensor_from(&[1_u32, 2], [3]); // a mistake, which `submit` reports
    /// assert!(batch.submit().is_err());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn tensor_from<T: Element>(&self, data: &[T], shape: impl AsRef<[usize]>) -> Tensor<'_, T> {
        let made = checked(shape.as_ref(), data.len(), "tensor_from");
        let tensor = self.make::<T>("tensor_from", made, Self::tensor_slot);
        if !tensor.refused && !data.is_empty() {
            self.write(tensor, data);
        }
        tensor
    }

    /// A tensor whose data each run of a replay provides.
    #[track_caller]
    pub(crate) fn input_tensor<T: Element>(&self, shape: &[usize]) -> Tensor<'_, T> {
        self.make("input", shape_of(shape, "input"), Self::input_slot)
    }

    /// A view of a buffer, a slice of one or scratch as a tensor, without a copy. Exception: operands of `matmul`,
    /// `gather` tables and `concat` parts that start at an offset the device cannot bind (usually not a multiple of 256
    /// bytes) are copied when they are used.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let weights = device.upload(&[1.0_f32; 12])?; // once, for any number of batches
    /// let batch = device.batch();
    /// let total = batch.tensor(&weights, [3, 4]).sum(&[0, 1]).read();
    /// batch.submit()?;
    /// assert_eq!(total.wait()?, [12.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn tensor<B: Typed>(&self, memory: B, shape: impl AsRef<[usize]>) -> Tensor<'_, B::Item>
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
            Ok((shape, None)) => self.make("tensor", Ok(shape), Self::tensor_slot),
            Err(error) => self.refused(error),
        }
    }

    /// The tensor with this id.
    ///
    /// An id of another batch, or of one that has been submitted, is a mistake.
    #[track_caller]
    pub fn at<T: Element>(&self, id: TensorId<T>) -> Tensor<'_, T> {
        if id.batch == self.id { self.named(id.value, id.refused) } else { self.refused(foreign("at")) }
    }

    fn named<T>(&self, value: TensorRef, refused: bool) -> Tensor<'_, T> {
        Tensor { batch: self, value, refused, elements: PhantomData }
    }

    /// Allocates memory of this kind for a tensor.
    #[track_caller]
    fn make<T: Element>(
        &self,
        what: &str,
        shape: Result<Shape>,
        slot: impl FnOnce(&Self, u64) -> SlotId,
    ) -> Tensor<'_, T> {
        let placed = shape.and_then(|shape| {
            let bytes = u64::from(shape.len()) * T::KIND.bytes();
            let limit = self.most_bytes();
            if bytes > limit {
                return Err(Error::too_large(format!("{what}: bytes of a tensor of shape {shape}"), bytes, limit));
            }
            Ok(TensorRef { slot: slot(self, bytes), start: 0, shape, element: T::KIND })
        });
        match placed {
            Ok(value) => self.named(value, false),
            Err(error) => self.refused(error),
        }
    }

    /// Records a mistake. Returns a placeholder for the tensor that could not be created.
    #[cold]
    #[track_caller]
    fn refused<T: Element>(&self, error: Error) -> Tensor<'_, T> {
        self.refuse_tensor(error);
        self.placeholder()
    }

    /// A placeholder for a tensor whose mistake has been recorded.
    fn placeholder<T: Element>(&self) -> Tensor<'_, T> {
        let value = TensorRef { slot: self.tensor_slot(4), start: 0, shape: Shape::default(), element: T::KIND };
        self.named(value, true)
    }

    /// A placeholder for the result, if an argument cannot be used.
    #[track_caller]
    fn unusable<T: Element>(&self, what: &str, arguments: &[Argument<'_>]) -> Option<Tensor<'_, T>> {
        let mut foreign_batch = false;
        for argument in arguments {
            if let Argument::Tensor { batch, refused, .. } = argument {
                if *refused {
                    return Some(self.placeholder());
                }
                foreign_batch |= batch.id != self.id;
            }
        }
        // Not in a closure, which would have a caller location of its own.
        if foreign_batch { Some(self.refused(foreign(what))) } else { None }
    }

    /// Records one operation. `scalars` are its own parameters, beside the numbers among its arguments.
    #[track_caller]
    fn operate<T: Element>(
        &self,
        what: &str,
        kind: TensorKind,
        arguments: &[Argument<'_>],
        scalars: &[u32],
        shape: Result<Shape>,
    ) -> Tensor<'_, T> {
        if let Some(unusable) = self.unusable(what, arguments) {
            return unusable;
        }
        let nothing = TensorRef { slot: SlotId(0), start: 0, shape: Shape::default(), element: ElementType::F32 };
        let mut op = TensorOp { kind, inputs: [nothing; 3], count: 0, numbers: 0, output: nothing };
        let mut words: SmallVec<[u32; 4]> = scalars.into();
        for (at, argument) in arguments.iter().enumerate() {
            match *argument {
                Argument::Number(word) => {
                    op.numbers |= 1 << at;
                    words.push(word);
                }
                Argument::Tensor { value, .. } => {
                    let bound_whole = matches!(kind, TensorKind::Matmul { .. } | TensorKind::Concat(_))
                        || (kind == TensorKind::Gather && at == 0);
                    let copied = bound_whole && !self.is_bindable(value.start);
                    op.inputs[usize::from(op.count)] = if copied { self.bindable(what, argument) } else { value };
                    op.count += 1;
                }
            }
        }
        let output = self.make::<T>(what, shape, Self::tensor_slot);
        if !output.refused {
            op.output = output.value;
            self.record_tensor(op, &words, Location::caller());
        }
        output
    }

    /// A copy of a tensor that starts where it cannot be bound.
    #[track_caller]
    fn bindable(&self, what: &str, input: &Argument<'_>) -> TensorRef {
        let Argument::Tensor { value, .. } = input else { unreachable!("only tensors are bound") };
        let (shape, copy, input) = (Ok(value.shape), TensorKind::Broadcast, std::slice::from_ref(input));
        match value.element {
            ElementType::F32 => self.operate::<f32>(what, copy, input, &[], shape).value,
            ElementType::F16 => self.operate::<half::f16>(what, copy, input, &[], shape).value,
            ElementType::U32 => self.operate::<u32>(what, copy, input, &[], shape).value,
            ElementType::I32 => self.operate::<i32>(what, copy, input, &[], shape).value,
        }
    }
}

fn foreign(what: &str) -> Error {
    let message = format!(
        "{what}: a tensor of another batch; a tensor is valid until its batch is submitted: `store` it into a buffer \
         there, and make a `tensor` of that buffer here"
    );
    Error::new(ErrorKind::Bindings, message)
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

/// Shapes that do not suit an operation, with the rule that they break.
fn wrong_shapes(what: &str, left: Shape, right: Shape, rule: &str) -> Error {
    Error::new(ErrorKind::Shape, format!("{what}: left is {left} but right is {right}; {rule}"))
}
