//! Jobs that a batcher runs on devices.

use crate::{
    batch::Batch,
    device::Device,
    error::{Error, ErrorKind, Result},
    finish::Ticket,
};

/// Returns the answers of a completed batch, one per input, in their order.
pub type Answers<O> = Box<dyn FnOnce() -> Result<Vec<Result<O>>> + Send>;

/// Work that devices do for many requests at once. A [`Batcher`](crate::Batcher) on a [`Device`] or a
/// [`Fleet`](crate::Fleet) runs it.
///
/// A job borrows its inputs, because a batch may run more than once. If it fails in [`record`](DeviceJob::record) or
/// [`start`](DeviceJob::start), panics, or returns an error or a wrong number of answers, it is run again in two
/// halves, and these in halves, until the requests that fail are isolated. Each of them gets its own error: the one the
/// job returned, [`JobPanicked`](crate::ErrorKind::JobPanicked), or [`Shape`](crate::ErrorKind::Shape) for a wrong
/// number of answers. All others are answered. `c` failing requests among `n` take at most `2 c ⌈log2 n⌉` further
/// attempts, and at most `max(n / 2, 64)` are made: a part that fails after that fails as a whole.
/// [`BatchMetrics`](crate::batcher::BatchMetrics) counts them.
///
/// Failures that concern all inputs fail all of them: a lost device, memory, time, and errors while the device runs the
/// batch. A job that knows which input is wrong reports it in [`check`](DeviceJob::check) or in the answers, which
/// costs no further attempt.
///
/// For work that does not run on a device, implement [`Job`](crate::Job).
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
///     fn record(&self, ready: &mut Self::Ready, batch: &Batch, inputs: &[f32]) -> sortie::Result<Answers<f32>> {
///         let x = batch.tensor_from(inputs, [inputs.len()]);
///         batch.dispatch(&ready.1, &[&x], Grid::items(inputs.len()));
///         let doubled = x.read();
///         Ok(Box::new(|| Ok(doubled.wait()?.into_iter().map(Ok).collect())))
///     }
/// }
///
/// let batcher = Batcher::new(&Device::cpu()?, Double, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(21.0)?, 42.0);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait DeviceJob: Send + Sync + 'static {
    /// A request.
    type Input: Send + 'static;
    /// The answer to a request.
    type Output: Send + 'static;
    /// The job's state on a device: kernels, weights, replays.
    type Ready: Send + 'static;

    /// Its name in published metrics; by default the name of its type.
    fn name(&self) -> String {
        let name = std::any::type_name::<Self>();
        let plain = name.split('<').next().unwrap_or(name);
        plain.rsplit("::").next().unwrap_or(plain).to_owned()
    }

    /// Creates its state on a device: once per device, again after a lost device was reopened, and after a panic, which
    /// may have left the state inconsistent.
    ///
    /// # Errors
    /// When the batcher is created, its creation fails; later, the batch that waits for the state fails.
    fn prepare(&self, device: &Device) -> Result<Self::Ready>;

    /// Number of batch rows that an input takes.
    fn rows(&self, _input: &Self::Input) -> usize {
        1
    }

    /// Inputs with different keys never share a batch.
    fn key(&self, _input: &Self::Input) -> u64 {
        0
    }

    /// Checks an input. Runs on the caller's thread; only that caller gets the error.
    ///
    /// # Errors
    /// [`Error::input`](crate::Error::input) with a message.
    fn check(&self, _input: &Self::Input) -> Result<()> {
        Ok(())
    }

    /// The answer to a valid input that needs no device, for example an empty one.
    fn answer_immediately(&self, _input: &Self::Input) -> Option<Self::Output> {
        None
    }

    /// Splits an input that has more rows than a batch allows. An input that is not split runs alone.
    fn split(&self, input: Self::Input, _rows: usize) -> Vec<Self::Input> {
        vec![input]
    }

    /// Joins the answers to the parts of a [split](DeviceJob::split) input, in their order.
    fn join(&self, mut parts: Vec<Self::Output>) -> Self::Output {
        parts.pop().unwrap_or_else(|| unreachable!("an input is split into parts"))
    }

    /// Starts a batch for all these inputs. By default it submits the ops that the job [records](DeviceJob::record). A
    /// job with a [`Replay`](crate::Replay) runs it here and need not implement `record`.
    ///
    /// # Errors
    /// The batch is run again with fewer inputs, until the failing ones are isolated.
    fn start(
        &self,
        ready: &mut Self::Ready,
        device: &Device,
        inputs: &[Self::Input],
    ) -> Result<(Ticket, Answers<Self::Output>)> {
        let batch = device.batch();
        let answers = self.record(ready, &batch, inputs)?;
        Ok((batch.submit_async()?, answers))
    }

    /// Records a batch for all these inputs. Required unless the job implements [`start`](DeviceJob::start).
    ///
    /// # Errors
    /// The batch is run again with fewer inputs, until the failing ones are isolated.
    fn record(
        &self,
        _ready: &mut Self::Ready,
        _batch: &Batch,
        _inputs: &[Self::Input],
    ) -> Result<Answers<Self::Output>> {
        let message = format!("the job {} implements neither `record` nor `start`", self.name());
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
