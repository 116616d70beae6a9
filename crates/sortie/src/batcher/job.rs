//! What a batcher runs.

use crate::{batch::Batch, device::Device, error::Result, finish::Ticket};

/// What gives the results of a batch, one for each of its inputs in their order, once the batch is done.
pub type Answers<O> = Box<dyn FnOnce() -> Result<Vec<Result<O>>> + Send>;

/// Work that is done for many requests at once.
///
/// A job borrows its inputs, because a batch may be run more than once: where one fails in [`record`](Job::record) or [`fly`](Job::fly), panics, or gives an error or a wrong number of answers, it is
/// run again in two halves, and these in halves, until the requests that fail it are isolated. They fail with their own error: what the job returned, [`JobPanicked`](crate::ErrorKind::JobPanicked), or
/// [`Shape`](crate::ErrorKind::Shape) for a wrong number of answers. All others are answered. With `c` such requests among `n` it takes at most `2 c ⌈log2 n⌉` further attempts, and there are at most `n / 2`,
/// or 64: a part that fails after that fails as a whole. [`BatchMetrics`](crate::BatchMetrics) counts them. Failures that concern all inputs alike fail all of them: a lost device, memory, time, and whatever
/// fails while the device runs the batch. A job that knows which of its inputs is wrong says so in [`check`](Job::check) or in the answers, which costs nothing further.
///
/// ```
/// use sortie::{Answers, Batch, Batcher, BatchConfig, Device, Grid, Job, Kernel};
///
/// /// Doubles numbers.
/// struct Double;
///
/// impl Job for Double {
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
pub trait Job: Send + Sync + 'static {
    /// What a caller brings.
    type Input: Send + 'static;
    /// What a caller gets.
    type Output: Send + 'static;
    /// What the job keeps on a device: kernels, weights, replays.
    type Ready: Send + 'static;

    /// What it is called in published metrics: its type's name, unless it says otherwise.
    fn name(&self) -> String {
        let name = std::any::type_name::<Self>();
        let plain = name.split('<').next().unwrap_or(name);
        plain.rsplit("::").next().unwrap_or(plain).to_owned()
    }

    /// Makes what it keeps on a device: at the beginning, for each device, and anew when one was lost and has been reopened, or after a panic, which may have left it inconsistent.
    ///
    /// # Errors
    /// Whatever is in the way.
    fn prepare(&self, device: &Device) -> Result<Self::Ready>;

    /// How many rows of a batch an input takes.
    fn rows(&self, _input: &Self::Input) -> usize {
        1
    }

    /// Inputs with different keys never share a batch.
    fn key(&self, _input: &Self::Input) -> u64 {
        0
    }

    /// Whether an input is as it should be. Asked on the caller's thread, and only that caller hears of it.
    ///
    /// # Errors
    /// [`Error::input`](crate::Error::input), saying what is wrong.
    fn check(&self, _input: &Self::Input) -> Result<()> {
        Ok(())
    }

    /// The answer to an input that is as it should be and needs no device: an empty one, say.
    fn at_once(&self, _input: &Self::Input) -> Option<Self::Output> {
        None
    }

    /// Cuts an input that has more rows than a batch may have into several that have not. Left as it is, it flies alone.
    fn split(&self, input: Self::Input, _rows: usize) -> Vec<Self::Input> {
        vec![input]
    }

    /// Puts together the answers to the parts of an input that was [cut](Job::split), in their order.
    fn join(&self, mut parts: Vec<Self::Output>) -> Self::Output {
        parts.pop().unwrap_or_else(|| unreachable!("an input is cut into parts"))
    }

    /// Flies what is to be done for all these inputs: a batch of what it [records](Job::record), unless the job knows better. One that has a
    /// [`Replay`](crate::Replay) of it runs that here.
    ///
    /// # Errors
    /// It is tried again with fewer of them, until those that fail it are isolated.
    fn fly(
        &self,
        ready: &mut Self::Ready,
        device: &Device,
        inputs: &[Self::Input],
    ) -> Result<(Ticket, Answers<Self::Output>)> {
        let mut batch = device.batch();
        let answers = self.record(ready, &mut batch, inputs)?;
        Ok((batch.submit_async()?, answers))
    }

    /// Records a batch for all these inputs.
    ///
    /// # Errors
    /// It is tried again with fewer of them, until those that fail it are isolated.
    fn record(
        &self,
        ready: &mut Self::Ready,
        batch: &mut Batch,
        inputs: &[Self::Input],
    ) -> Result<Answers<Self::Output>>;
}
