//! Data larger than memory, window by window.
//!
//! A [`Stream`] takes elements from a [`Source`], runs every window of them through a kernel, a recording or a replay, and gives what comes out to a [`Sink`], or to
//! whoever asks [`Windows`] for it. It has no thread of its own: the caller's brings the next window and takes away the last one while the device computes those between.
//!
//! Invariants: windows come out in the order they went in; no more than [`Stream::in_flight`] of them are under way, however long the data is; after an error
//! nothing is.

mod progress;
mod sink;
mod source;
mod transform;
mod windows;

use std::{fmt, panic::Location};

use self::transform::Transform;
pub use self::{progress::Progress, sink::Sink, source::Source, windows::Windows};
use crate::{
    batch::{Batch, Typed},
    device::Device,
    error::{Error, Result},
    kernel::Kernel,
    replay::{Output, Replay},
    tensor::{Element, Tensor},
};

/// Bytes of input in a window: what a submission costs is nothing beside the time that this much takes to be moved, and a few of them are nothing beside the memory of a machine.
const WINDOW: usize = 16 << 20;

/// One is computed while another is brought or taken away.
const IN_FLIGHT: usize = 2;

/// A device has offsets of 32 bits into what a batch reads.
const MOST_BYTES: u64 = u32::MAX as u64;

/// A data set that need not fit into any memory, through a kernel, a recording or a replay.
///
/// ```
/// use sortie::{Device, Stream, stream::Source};
///
/// let device = Device::cpu()?;
/// let double = device.kernel("
///     @group(0) @binding(0) var<storage, read> x: array<f32>;
///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&y) { y[id.x] = 2.0 * x[id.x]; }
///     }
/// ")?;
/// let numbers = (0..100_000).map(|number| number as f32);
/// let mut doubled = Vec::new();
/// let stream = Stream::<f32, f32>::kernel(&device, &double).window(64 << 10);
/// let done = stream.run(Source::items(numbers), &mut doubled)?;
/// assert_eq!((done.windows, doubled.len(), doubled[99_999]), (7, 100_000, 199_998.0));
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// Memory is bounded by the window: `in_flight` times one of the input and one of the output on the device, as much again where the device has to be written to and read through
/// memory of its driver's, one window of the input that is being gathered, and one of the output that is being used. That memory is used again and again: however many windows
/// go through, no more is made than that, as long as a window is not larger than what the [pool](crate::device::PoolLimits) keeps, a quarter of its bytes.
pub struct Stream<'a, T, U> {
    transform: Transform<'a, T, U>,
    /// Elements of a row that goes in, and of one that comes out.
    widths: [usize; 2],
    window: usize,
    in_flight: usize,
    tell: Option<Tell<'a>>,
}

/// Who is told of the progress.
type Tell<'a> = Box<dyn FnMut(&Progress) + 'a>;

impl<'a, T: Element, U: Element> Stream<'a, T, U> {
    /// Through a kernel, which runs one invocation for each row: for each element, unless [`rows`](Stream::rows) says otherwise.
    ///
    /// It has two bindings, of which it reads the first and writes the second; what it does not write there is zero. Or it has one, which it changes in place.
    #[must_use]
    #[track_caller]
    pub fn kernel(device: &Device, kernel: &Kernel) -> Self {
        Self::new(Transform::Kernel { device: device.clone(), kernel: kernel.clone(), here: Location::caller() })
    }

    /// Through what `record` records for each window. It is given a tensor of shape `[rows, width]`, and says what is to be read. That may be as many elements as it likes: one sum for
    /// each window, say.
    ///
    /// Every window is recorded, but planned only when it is the first of its length.
    ///
    /// ```
    /// use sortie::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let weights = device.upload(&[1.0_f32, 10.0, 100.0])?;
    /// let dots = Stream::<f32, f32>::record(&device, |batch, x| {
    ///     let weights = batch.tensor(&weights, [3, 1]);
    ///     let y = batch.matmul(x, weights);
    ///     batch.relu(y)
    /// });
    /// let mut out = Vec::new();
    /// dots.rows([3, 1]).run(&[1.0_f32, 2.0, 3.0, -4.0, -5.0, -6.0], &mut out)?;
    /// assert_eq!(out, [321.0, 0.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn record<R, F>(device: &Device, mut record: F) -> Self
    where
        R: Typed<Item = U>,
        F: FnMut(&mut Batch, Tensor<T>) -> R + 'a,
    {
        let here = Location::caller();
        let record = Box::new(move |batch: &mut Batch, x| {
            let y = record(batch, x);
            batch.read(y)
        });
        Self::new(Transform::Recording { device: device.clone(), record, here })
    }

    /// Through a replay, with an input of it and an output. A window is what the input takes: rows are its outermost dimension, and the last window is filled up with zeros of which
    /// nothing comes out.
    ///
    /// ```
    /// use sortie::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.input::<f32>([4]);
    /// let y = batch.exp(x);
    /// let y = batch.output(y);
    /// let replay = batch.freeze()?;
    /// let mut out = Vec::new();
    /// Stream::replay(&replay, x, y).run(&[0.0; 6], &mut out)?;
    /// assert_eq!(out, [1.0; 6]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn replay(replay: &Replay, input: Tensor<T>, output: Output<U>) -> Self {
        let here = Location::caller();
        let rows = input.shape().first().copied().unwrap_or(1).max(1);
        let widths = [input.len() / rows, output.len() / rows];
        let transform = Transform::Replay { replay: replay.clone(), input, output, rows, here };
        Self { widths: widths.map(|width| width.max(1)), ..Self::new(transform) }
    }

    fn new(transform: Transform<'a, T, U>) -> Self {
        Self { transform, widths: [1, 1], window: WINDOW, in_flight: IN_FLIGHT, tell: None }
    }

    /// How many elements a row has that goes in, and one that comes out: 1 and 1 until this is said. Windows are whole rows. (A replay has its own rows.)
    ///
    /// ```
    /// use sortie::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let sums = device.kernel("
    ///     @group(0) @binding(0) var<storage, read> x: array<u32>;
    ///     @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if id.x < arrayLength(&y) { y[id.x] = x[2u * id.x] + x[2u * id.x + 1u]; }
    ///     }
    /// ")?;
    /// let mut out = Vec::new();
    /// Stream::<u32, u32>::kernel(&device, &sums).rows([2, 1]).run(&[1, 2, 30, 40], &mut out)?;
    /// assert_eq!(out, [3, 70]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn rows(mut self, widths: [usize; 2]) -> Self {
        if !matches!(self.transform, Transform::Replay { .. }) {
            self.widths = widths.map(|width| width.max(1));
        }
        self
    }

    /// Bytes of the input in one window, 16 MiB until this is said: rounded down to whole rows, but at least one, and to what the device can bind. (A replay has its own window.)
    #[must_use]
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = bytes;
        self
    }

    /// How many windows may be under way, 2 until this is said. With 1 nothing overlaps.
    #[must_use]
    pub fn in_flight(mut self, windows: usize) -> Self {
        self.in_flight = windows.max(1);
        self
    }

    /// Tells how far it is whenever a window has been taken away.
    ///
    /// ```
    /// # use sortie::{Device, Stream};
    /// # let device = Device::cpu()?;
    /// let stream = Stream::<f32, f32>::record(&device, |batch, x| batch.exp(x)).window(1 << 10);
    /// let mut told = Vec::new();
    /// stream.on_progress(|progress| told.extend(progress.fraction())).run(&[0.0; 1024], &mut Vec::new())?;
    /// assert_eq!(told, [0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn on_progress(mut self, tell: impl FnMut(&Progress) + 'a) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// How many rows a whole window has on this device.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when the device cannot bind a single row, [`Bindings`](crate::ErrorKind::Bindings) when the kernel has not the bindings of a stream's.
    pub fn window_rows(&self) -> Result<usize> {
        self.transform.check(self.widths)?;
        let (device, here) = match &self.transform {
            Transform::Replay { rows, .. } => return Ok(*rows),
            Transform::Kernel { device, here, .. } | Transform::Recording { device, here, .. } => (device, here),
        };
        let limits = device.info().limits;
        let most = limits.binding_bytes.min(limits.buffer_bytes).min(MOST_BYTES) & !3;
        let [row, out] = [bytes::<T>(self.widths[0]), bytes::<U>(self.widths[1])];
        let widest = row.max(out);
        if widest > most {
            return Err(Error::too_large("stream: bytes in one row", widest, most).at(here));
        }
        let rows = (self.window as u64 / row).clamp(1, most / widest);
        // Elements of two bytes: only the last window may end in the middle of a word.
        let even = if rows > 1 && size_of::<T>().min(size_of::<U>()) < 4 { rows & !1 } else { rows };
        usize::try_from(even).map_err(|_| Error::too_large("stream: rows in one window", even, usize::MAX as u64))
    }

    /// Runs all of the source through, window by window, into the sink. Returns how much that was.
    ///
    /// # Errors
    /// The first thing to go wrong, with the window in which it did: [`Source`](crate::ErrorKind::Source) and [`Sink`](crate::ErrorKind::Sink), with what they said as the
    /// [source](std::error::Error::source) of the error; [`Shape`](crate::ErrorKind::Shape) when the data is no whole number of rows; else as [`Batch::submit`].
    /// The sink has then had all windows before that one, and nothing is under way any more.
    pub fn run<'s>(self, source: impl Into<Source<'s, T>>, sink: impl Into<Sink<'s, U>>) -> Result<Progress>
    where
        'a: 's,
    {
        self.over(source).pour(sink.into())
    }

    /// What comes out, window by window, for whoever wants to take it away himself. Each is computed while others are used: ask for the next only when done with the last.
    ///
    /// ```
    /// # use sortie::{Device, Stream};
    /// # let device = Device::cpu()?;
    /// let numbers = vec![1_u32; 1000];
    /// let sums = Stream::<u32, u32>::record(&device, |batch, x| batch.sum(x, &[0, 1])).window(1 << 10);
    /// let mut total = 0;
    /// for sum in sums.over(&numbers) {
    ///     total += sum?[0];
    /// }
    /// assert_eq!(total, 1000);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn over<'s>(self, source: impl Into<Source<'s, T>>) -> Windows<'s, T, U>
    where
        'a: 's,
    {
        Windows::new(self, source.into())
    }
}

/// Bytes of so many elements; more than any device has when they cannot be counted.
fn bytes<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

impl<T, U> fmt::Debug for Stream<'_, T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("widths", &self.widths)
            .field("window", &self.window)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
