//! Data larger than memory, window by window.
//!
//! A [`Stream`] takes elements from a [`Source`], runs every window of them through a kernel, a recording or a replay,
//! and writes the results to a [`Sink`] or yields them as [`Windows`]. It has no thread: the calling thread uploads the
//! next window and reads back the last one while the device computes those between.
//!
//! Invariants: windows come out in order; at most [`Stream::in_flight`] windows are in flight, however long the data
//! is; after an error none is.

mod progress;
mod sink;
mod source;
mod transform;
mod windows;

use std::panic::Location;

use self::transform::Transform;
pub use self::{progress::Progress, sink::Sink, source::Source, windows::Windows};
use crate::{
    batch::{Batch, RowWidths},
    device::Device,
    error::{CallSite, Error, ErrorKind, Result},
    finish::Reading,
    kernel::Kernel,
    replay::{Input, Output, Replay},
    tensor::{Element, Tensor},
};

/// Input bytes of a window. Large enough that the cost of a submission is negligible, small enough that a few windows
/// take little memory.
const WINDOW: usize = 16 << 20;

/// One window is computed while another is read or written.
const IN_FLIGHT: usize = 2;

/// Offsets into a batch's readback are 32 bits wide.
const MAX_WINDOW_BYTES: u64 = u32::MAX as u64;

/// Processes a data set of any size, window by window, through a kernel, a recording or a replay.
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
/// Memory is bounded by the window: on the device `in_flight` times one input window and one output window, the same
/// again if the device needs staging buffers, one input window being gathered, and one output window being used. The
/// memory is reused for all windows, as long as a window is not larger than a quarter of the bytes that the
/// [pool](crate::device::PoolLimits) keeps.
#[derive(derive_more::Debug)]
#[debug("Stream {{ widths: {widths:?}, window: {window}, in_flight: {in_flight}, .. }}")]
pub struct Stream<'a, T, U> {
    transform: Transform<'a, T, U>,
    /// The user's line, for errors.
    here: CallSite,
    widths: RowWidths,
    window: usize,
    in_flight: usize,
    tell: Option<Tell<'a>>,
}

/// The progress callback.
type Tell<'a> = Box<dyn FnMut(&Progress) + 'a>;

impl<'a, T: Element, U: Element> Stream<'a, T, U> {
    /// Runs a kernel with one invocation per row. A row is one element unless [`rows`](Stream::rows) sets another
    /// width.
    ///
    /// The kernel has two bindings: it reads the first and writes the second, which is zeroed beforehand. Or it has
    /// one, which it changes in place.
    #[must_use]
    #[track_caller]
    pub fn kernel(device: &Device, kernel: &Kernel) -> Self {
        Self::new(Transform::Kernel { device: device.clone(), kernel: kernel.clone() }, Location::caller())
    }

    /// Runs the ops that `record` records for each window. `record` gets a tensor of shape `[rows, width]` and returns
    /// a reading of any number of elements, for example one sum per window.
    ///
    /// Every window is recorded, but only the first of each length is planned.
    ///
    /// ```
    /// use sortie::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let weights = device.upload(&[1.0_f32, 10.0, 100.0])?;
    /// let dots = Stream::<f32, f32>::record(&device, |batch, x| {
    ///     x.matmul(batch.tensor(&weights, [3, 1])).relu().read()
    /// });
    /// let mut out = Vec::new();
    /// dots.rows([3, 1]).run(&[1.0_f32, 2.0, 3.0, -4.0, -5.0, -6.0], &mut out)?;
    /// assert_eq!(out, [321.0, 0.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn record(device: &Device, record: impl for<'b> FnMut(&'b Batch, Tensor<'b, T>) -> Reading<U> + 'a) -> Self {
        Self::new(Transform::Recording { device: device.clone(), record: Box::new(record) }, Location::caller())
    }

    /// Runs a replay, with one of its inputs and one of its outputs. The input determines the window: rows are its
    /// outermost dimension. The last window is padded with zeros, and the output of the padding is dropped.
    ///
    /// ```
    /// use sortie::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let batch = device.batch();
    /// let (input, x) = batch.input::<f32>([4]);
    /// let output = x.exp().output();
    /// let replay = batch.freeze()?;
    /// let mut out = Vec::new();
    /// Stream::replay(&replay, input, output).run(&[0.0; 6], &mut out)?;
    /// assert_eq!(out, [1.0; 6]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn replay(replay: &Replay, input: Input<T>, output: Output<U>) -> Self {
        let widths = RowWidths::new(input.len() / input.rows, output.len() / input.rows);
        let transform = Transform::Replay { replay: replay.clone(), input, output };
        Self { widths, ..Self::new(transform, Location::caller()) }
    }

    fn new(transform: Transform<'a, T, U>, here: CallSite) -> Self {
        Self { transform, here, widths: RowWidths::new(1, 1), window: WINDOW, in_flight: IN_FLIGHT, tell: None }
    }

    /// Sets the elements of an input row and of an output row; the default is 1 and 1. Windows are whole rows. (A
    /// replay has its own rows.)
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
    pub fn rows(mut self, [input, output]: [usize; 2]) -> Self {
        if !matches!(self.transform, Transform::Replay { .. }) {
            self.widths = RowWidths::new(input, output);
        }
        self
    }

    /// Sets the input bytes of one window; the default is 16 MiB. Rounded down to whole rows, but at least one, and to
    /// the largest binding of the device. (A replay has its own window.)
    #[must_use]
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = bytes;
        self
    }

    /// Sets the maximum number of windows in flight; the default is 2. With 1 nothing overlaps.
    #[must_use]
    pub fn in_flight(mut self, windows: usize) -> Self {
        self.in_flight = windows.max(1);
        self
    }

    /// Calls `tell` with the progress after each window.
    ///
    /// ```
    /// # use sortie::{Device, Stream};
    /// # let device = Device::cpu()?;
    /// let stream = Stream::<f32, f32>::record(&device, |_, x| x.exp().read()).window(1 << 10);
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

    /// Rows of a full window on this device. On a device with a [`memory_budget`](crate::DeviceOptions::memory_budget)
    /// the window is halved until all windows in flight fit; to know the memory of a recording, it is recorded and
    /// planned, but not run.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions, Stream};
    ///
    /// let device = Device::cpu_with(DeviceOptions::default().with_memory_budget(32 << 20))?;
    /// let mut stream = Stream::<f32, f32>::record(&device, |_, x| x.exp().read());
    /// assert_eq!(stream.window_rows()?, 1 << 21); // 8 MiB: two windows of input and output fit
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the device cannot bind a single row;
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) if windows of a single row do not fit the memory budget;
    /// [`Bindings`](crate::ErrorKind::Bindings) if the kernel's bindings do not suit a stream.
    pub fn window_rows(&mut self) -> Result<usize> {
        let here = self.here;
        self.transform.check(self.widths).map_err(|error| error.at(here))?;
        let device = match &self.transform {
            Transform::Replay { input, .. } => return Ok(input.rows),
            Transform::Kernel { device, .. } | Transform::Recording { device, .. } => device.clone(),
        };
        let limits = device.info().limits;
        let most = limits.binding_bytes.min(limits.buffer_bytes).min(MAX_WINDOW_BYTES) & !3;
        let [row, out] = [bytes::<T>(self.widths.input), bytes::<U>(self.widths.output)];
        let widest = row.max(out);
        if widest > most {
            return Err(Error::too_large("stream: bytes in one row", widest, most).at(here));
        }
        let rows = (self.window as u64 / row).clamp(1, most / widest);
        // With elements of two bytes, only the last window may end in the middle of a word.
        let even = if rows > 1 && size_of::<T>().min(size_of::<U>()) < 4 { rows & !1 } else { rows };
        let too_large = |_| Error::too_large("stream: rows in one window", even, usize::MAX as u64);
        self.fit(usize::try_from(even).map_err(too_large)?, &device).map_err(|error| error.at(here))
    }

    /// The most rows, half of `rows` or a quarter and so on, of which `in_flight` windows fit the memory budget.
    fn fit(&mut self, mut rows: usize, device: &Device) -> Result<usize> {
        let core = &device.core;
        let Some(budget) = core.options.memory_budget else { return Ok(rows) };
        let pool = &core.pool;
        let used = pool.live_bytes().saturating_sub(pool.idle_bytes()) + core.backend.staged_bytes();
        let free = budget.saturating_sub(used);
        let even = size_of::<T>().min(size_of::<U>()) < 4;
        loop {
            let window = self.transform.window_bytes(rows, self.widths)?;
            let wanted = window.saturating_mul(self.in_flight as u64);
            if wanted <= free {
                return Ok(rows);
            }
            if rows == 1 {
                let message = format!(
                    "stream: {} windows in flight of one row each take {wanted} bytes; the memory budget of {budget} \
                     bytes has {free} left",
                    self.in_flight
                );
                return Err(Error::new(ErrorKind::OutOfMemory { wanted, budget }, message));
            }
            rows = if even && rows > 3 { (rows / 2) & !1 } else { rows / 2 };
        }
    }

    /// Processes the whole source, window by window, into the sink. Returns the totals.
    ///
    /// # Errors
    /// The first error, with its window: [`Source`](crate::ErrorKind::Source) and [`Sink`](crate::ErrorKind::Sink),
    /// with the original error as the [source](std::error::Error::source); [`Shape`](crate::ErrorKind::Shape) if the
    /// data is not a whole number of rows; else as [`Batch::submit`]. The sink has then received all earlier windows,
    /// and nothing is in flight.
    pub fn run<'s>(self, source: impl Into<Source<'s, T>>, sink: impl Into<Sink<'s, U>>) -> Result<Progress>
    where
        'a: 's,
    {
        self.over(source).pour(sink.into())
    }

    /// Returns an iterator over the output windows. Later windows are computed while one is used: request the next only
    /// after using the last.
    ///
    /// ```
    /// # use sortie::{Device, Stream};
    /// # let device = Device::cpu()?;
    /// let numbers = vec![1_u32; 1000];
    /// let sums = Stream::<u32, u32>::record(&device, |_, x| x.sum(&[0, 1]).read()).window(1 << 10);
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

/// Bytes of `len` elements; saturates.
fn bytes<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}
