//! What a batcher runs on devices.

use crate::{
    batch::Batch,
    device::Device,
    error::{Error, ErrorKind, Result},
    finish::Ticket,
};

/// Gives the answers of a batch, one for each of its inputs in their order, once the batch is done.
pub type Answers<O> = Box<dyn FnOnce() -> Result<Vec<Result<O>>> + Send>;

/// Work that devices do for many requests at once: a [`Batcher`](crate::Batcher) on a [`Device`] or a [`Fleet`](crate::Fleet) runs it.
///
/// A job borrows its inputs, because a batch may be run more than once: where one fails in [`record`](DeviceJob::record) or [`start`](DeviceJob::start), panics, or gives an error or a wrong number of
/// answers, it is run again in two halves, and these in halves, until the requests that fail it are isolated. They fail with their own error: what the job returned,
/// [`JobPanicked`](crate::ErrorKind::JobPanicked), or [`Shape`](crate::ErrorKind::Shape) for a wrong number of answers. All others are answered. With `c` such requests among `n` it takes at most
/// `2 c ⌈log2 n⌉` further attempts, and there are at most `n / 2`, or 64: a part that fails after that fails as a whole. [`BatchMetrics`](crate::batcher::BatchMetrics) counts them. Failures that concern all inputs
/// alike fail all of them: a lost device, memory, time, and whatever fails while the device runs the batch. A job that knows which of its inputs is wrong says so in [`check`](DeviceJob::check) or in the
/// answers, which costs no further attempt.
///
/// Work that no device does is a [`Job`](crate::Job).
///
/// ```
/// use sortie::{Batch, BatchConfig, Batcher, Device, Grid, Kernel, batcher::{Answers, DeviceJob}};
///
/// /// Doubles numbers.
/// struct Double;
///
/// impl DeviceJob for Double {
///     type Input = f32;
///     type Output = f32;
///     type Ready = (Device, Kernel);
///
///     fn prepare(&self, device: &Device) -> sortie::Result<Self::Ready> {
///         let kernel = device.kernel("
///             @group(0) @binding(0) var<storage, read_write> x: array<f32>;
///             @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///                 if id.x < arrayLength(&x) { x[id.x] *= 2.0; }
///             }
///         ")?;
///         Ok((device.clone(), kernel))
///     }
///
///     fn record(&self, ready: &mut Self::Ready, batch: &mut Batch, inputs: &[f32]) -> sortie::Result<Answers<f32>> {
///         let x = batch.upload(inputs, [inputs.len()]);
///         batch.dispatch(&ready.1, &[&x], Grid::items(inputs.len()));
///         let doubled = batch.read(x);
///         Ok(Box::new(|| Ok(doubled.wait()?.into_iter().map(Ok).collect())))
///     }
/// }
///
/// let batcher = Batcher::new(&Device::cpu()?, Double, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(21.0)?, 42.0);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait DeviceJob: Send + Sync + 'static {
    /// What a caller brings.
    type Input: Send + 'static;
    /// What a caller gets.
    type Output: Send + 'static;
    /// What the job keeps on a device: kernels, weights, replays.
    type Ready: Send + 'static;

    /// Its name in published metrics: its type's name, unless it says otherwise.
    fn name(&self) -> String {
        let name = std::any::type_name::<Self>();
        let plain = name.split('<').next().unwrap_or(name);
        plain.rsplit("::").next().unwrap_or(plain).to_owned()
    }

    /// Makes what it keeps on a device: at first for each device, and again when one was lost and has been reopened, or after a panic, which may have left it inconsistent.
    ///
    /// # Errors
    /// The batcher is not made; later, the batch that waits for it fails.
    fn prepare(&self, device: &Device) -> Result<Self::Ready>;

    /// How many rows of a batch an input takes.
    fn rows(&self, _input: &Self::Input) -> usize {
        1
    }

    /// Inputs with different keys never share a batch.
    fn key(&self, _input: &Self::Input) -> u64 {
        0
    }

    /// Whether an input is valid. Called on the caller's thread, and only that caller gets the error.
    ///
    /// # Errors
    /// [`Error::input`](crate::Error::input), saying what is wrong.
    fn check(&self, _input: &Self::Input) -> Result<()> {
        Ok(())
    }

    /// The answer to a valid input that needs no device: an empty one, for example.
    fn answer_immediately(&self, _input: &Self::Input) -> Option<Self::Output> {
        None
    }

    /// Splits an input that has more rows than a batch may have. An input that stays whole runs alone.
    fn split(&self, input: Self::Input, _rows: usize) -> Vec<Self::Input> {
        vec![input]
    }

    /// Joins the answers to the parts of an input that was [split](DeviceJob::split), in their order.
    fn join(&self, mut parts: Vec<Self::Output>) -> Self::Output {
        parts.pop().unwrap_or_else(|| unreachable!("an input is split into parts"))
    }

    /// Starts a batch for all these inputs: by default it submits what the job [records](DeviceJob::record). A job that has a [`Replay`](crate::Replay) of it runs that here, and need not implement
    /// `record`.
    ///
    /// # Errors
    /// The batch is run again with fewer inputs, until those that fail it are isolated.
    fn start(
        &self,
        ready: &mut Self::Ready,
        device: &Device,
        inputs: &[Self::Input],
    ) -> Result<(Ticket, Answers<Self::Output>)> {
        let mut batch = device.batch();
        let answers = self.record(ready, &mut batch, inputs)?;
        Ok((batch.submit_async()?, answers))
    }

    /// Records a batch for all these inputs. Required unless the job implements [`start`](DeviceJob::start).
    ///
    /// # Errors
    /// The batch is run again with fewer inputs, until those that fail it are isolated.
    fn record(
        &self,
        _ready: &mut Self::Ready,
        _batch: &mut Batch,
        _inputs: &[Self::Input],
    ) -> Result<Answers<Self::Output>> {
        let message = format!("the job {} implements neither `record` nor `start`", self.name());
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
