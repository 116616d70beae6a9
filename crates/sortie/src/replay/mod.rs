//! Batches that run over and over: planned, compiled and given memory once.
//!
//! Inputs and outputs are memory that the replay keeps. A run copies its data into the inputs and copies out the
//! outputs that it asks for. All runs use the same memory, one after the other, and find scratch zeroed.
//!
//! On Vulkan a replay is native: see `backend/vulkan`. Other backends encode every run.

mod check;
mod rerecord;
mod run;

use std::{
    marker::PhantomData,
    panic::Location,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use sortie_plan::{Ports, SlotId};

use self::rerecord::Rerecord;
pub use self::run::Run;
use crate::{
    batch::{Batch, Typed},
    device::DeviceCore,
    error::Result,
    plan::FrozenPlan,
    policy::Split,
    tensor::{Element, Tensor},
};

/// A batch to run many times. A run writes the inputs, runs the recorded operations, and reads the outputs it asks for.
///
/// All runs use the same memory and execute one after the other, in the order they are submitted. Each stages its own
/// data, so a run can be submitted before earlier ones are done. Usable from any thread; clones are the same replay.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let weights = device.upload(&[1.0_f32, -2.0, 3.0, 4.0])?;
/// let batch = device.batch();
/// let (frame, x) = batch.input::<f32>([4]);
/// let out = (x * batch.tensor(&weights, [4])).relu().output();
/// let replay = batch.freeze()?;
///
/// for step in 0..3 {
///     let mut run = replay.run();
///     run.write(frame, &[step as f32; 4]);
///     let y = run.read(out);
///     run.submit_async()?;
///     assert_eq!(y.wait()?, [1.0, 0.0, 3.0, 4.0].map(|w| w * step as f32));
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Replay {{ inputs: {}, .. }}", self.parts.inputs.len())]
pub struct Replay {
    parts: Arc<ReplayInner>,
}

/// State that all runs of a replay share.
struct ReplayInner {
    core: Arc<DeviceCore>,
    /// The id of the batch that was frozen.
    batch: u64,
    /// The plan of the next run; runs in flight hold their own.
    frozen: Mutex<Arc<FrozenPlan>>,
    /// The inputs of each run.
    inputs: Ports,
    /// How its runs are cut.
    split: Split,
    rerecord: Rerecord,
    /// Set once a run has been compared with a live one, if that check is on.
    first: OnceLock<()>,
}

/// Data that each run of a replay provides: returned by [`Batch::input`], written by [`Run::write`].
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let (frame, x) = batch.input::<f32>([2, 3]);
/// let sums = x.sum(&[1]).output();
/// let replay = batch.freeze()?; // ends the use of `x`; `frame` and `sums` name what runs write and read
///
/// let mut run = replay.run();
/// run.write(frame, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let sums = run.read(sums);
/// run.submit()?;
/// assert_eq!((sums.wait()?, frame.len()), (vec![6.0, 15.0], 6));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Input {{ len: {len}, .. }}")]
pub struct Input<T> {
    batch: u64,
    /// `None` if it was refused.
    slot: Option<SlotId>,
    len: usize,
    /// The outermost dimension; 1 if it has none.
    pub(crate) rows: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T> Input<T> {
    getters! { self:
        /// Number of elements.
        len: usize = self.len;

        /// Whether it has no elements.
        is_empty: bool = self.len == 0;
    }
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<T> {}

/// A value that each run of a replay can read: returned by [`Tensor::output`] and [`Batch::output`].
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let (input, x) = batch.input::<f32>([2]);
/// let (double, square) = ((2.0 * x).output(), (x * x).output());
/// let replay = batch.freeze()?;
///
/// let mut run = replay.run();
/// run.write(input, &[3.0, 4.0]);
/// let read = run.read(square); // the other output is not requested, so it is not read back
/// run.submit()?;
/// assert_eq!((read.wait()?, double.len()), (vec![9.0, 16.0], 2));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Output {{ bytes: {bytes}, .. }}")]
pub struct Output<T> {
    batch: u64,
    start: u64,
    bytes: u64,
    elements: PhantomData<fn() -> T>,
}

impl<T> Output<T> {
    getters! { self:
        /// Number of elements.
        len: usize = crate::memory::index(self.bytes) / size_of::<T>().max(1);

        /// Whether it has no elements.
        is_empty: bool = self.bytes == 0;
    }
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Output<T> {}

impl Batch {
    /// An input, whose data each run of a [`Replay`] provides, and the tensor that has this data in the recording.
    #[track_caller]
    pub fn input<T: Element>(&self, shape: impl AsRef<[usize]>) -> (Input<T>, Tensor<'_, T>) {
        let tensor = self.input_tensor(shape.as_ref());
        let rows = shape.as_ref().first().copied().unwrap_or(1).max(1);
        let input = Input { batch: self.id, slot: tensor.slot(), len: tensor.len(), rows, elements: PhantomData };
        (input, tensor)
    }

    /// Lets each run of a [`Replay`] read the elements as they are at this point. For a tensor:
    /// [`Tensor::output`](crate::Tensor::output).
    #[track_caller]
    pub fn output<B: Typed>(&self, from: B) -> Output<B::Item> {
        let (start, bytes) = self.output_of(from);
        Output { batch: self.id, start, bytes, elements: PhantomData }
    }

    /// Turns the batch into a replay. Planning, compiling and allocating happen here, so a run only has to be
    /// submitted.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let state = device.upload(&[1.0_f32, 2.0, 3.0])?;
    /// let batch = device.batch();
    /// (batch.tensor(&state, [3]) * 2.0).store(&state);
    /// let step = batch.freeze()?;
    /// for _ in 0..10 {
    ///     step.run().submit()?; // the state stays on the device
    /// }
    /// assert_eq!(state.download()?, [1024.0, 2048.0, 3072.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// All mistakes made while recording. [`Bindings`](crate::ErrorKind::Bindings) if the batch has a
    /// [`read`](Batch::read), which belongs to one batch: use an [`output`](Batch::output) instead. Else as
    /// [`submit`](Batch::submit).
    #[track_caller]
    pub fn freeze(self) -> Result<Replay> {
        let here = Location::caller();
        let (core, batch) = (self.core.clone(), self.id);
        let (frozen, split) = self.frozen(here)?;
        let inputs = frozen.planned.recording.inputs.clone();
        let frozen = Mutex::new(Arc::new(frozen));
        let (rerecord, first) = (Rerecord::default(), OnceLock::new());
        Ok(Replay { parts: Arc::new(ReplayInner { core, batch, frozen, inputs, split, rerecord, first }) })
    }
}

impl<T: Element> Tensor<'_, T> {
    /// Lets each run of a [`Replay`] read it.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let (input, x) = batch.input::<f32>([2]);
    /// let out = x.exp().output();
    /// let replay = batch.freeze()?;
    /// let mut run = replay.run();
    /// run.write(input, &[0.0, 0.0]);
    /// let y = run.read(out);
    /// run.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn output(self) -> Output<T> {
        self.batch().output(self)
    }
}

impl Replay {
    /// Begins a run.
    #[must_use]
    pub fn run(&self) -> Run {
        Run::new(self.parts.clone())
    }
}
