//! Tensor operations over rows as a job that runs replays.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    device_job::{Answers, DeviceJob},
    widths::whole_rows,
};
use crate::{
    batch::{Batch, RowWidths},
    device::Device,
    error::Result,
    finish::Ticket,
    replay::{Input, Output, Replay},
    tensor::{Element, Tensor},
};

/// Minimum rows of a replay.
const MIN_ROWS: usize = 16;

/// Tensor operations over rows of a fixed width, as a [`DeviceJob`] that runs [`Replay`]s. Each power of two of rows is
/// recorded, planned and given memory once; later batches only run the replay. A batch with fewer rows is padded with
/// zeros, and the answers to the padding are dropped.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, batcher::RowReplays};
///
/// // The first function creates the weights on a device, and again if the device is lost.
/// let layer = RowReplays::<f32, f32>::new(
///     [3, 2],
///     |device| device.upload(&[1.0_f32, 0.0, 0.0, 1.0, 1.0, -1.0]),
///     |weights, x| x.matmul(x.batch().tensor(weights, [3, 2])).relu(),
/// );
/// let batcher = Batcher::new(&Device::cpu()?, layer, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(vec![1.0, 2.0, 3.0])?, [4.0, 0.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("RowReplays {{ widths: {widths:?}, .. }}")]
pub struct RowReplays<T: Element, U: Element> {
    widths: RowWidths,
    make: Maker<T, U>,
}

/// Creates the recording function for a device.
type Maker<T, U> = Box<dyn Fn(&Device) -> Result<OpRecorder<T, U>> + Send + Sync>;

/// Records the operations on a tensor of rows.
type OpRecorder<T, U> = Box<dyn for<'b> Fn(Tensor<'b, T>) -> Tensor<'b, U> + Send>;

/// The state on a device: the recording function, and the replays made so far, by rows.
#[derive(derive_more::Debug)]
#[debug("Replays {{ rows: {:?}, .. }}", self.frozen.keys())]
pub struct Replays<T: Element, U: Element> {
    record: OpRecorder<T, U>,
    frozen: BTreeMap<usize, FrozenRows<T, U>>,
}

struct FrozenRows<T: Element, U: Element> {
    replay: Replay,
    x: Input<T>,
    y: Output<U>,
}

impl<T: Element, U: Element> RowReplays<T, U> {
    /// Takes the widths of an input row and of an output row, a function that creates the state on a device (its
    /// weights), and one that records the operations. That one gets the state and a tensor of rows, and must return a
    /// tensor with as many rows.
    #[must_use]
    pub fn new<S: Send + 'static>(
        [input, output]: [usize; 2],
        prepare: impl Fn(&Device) -> Result<S> + Send + Sync + 'static,
        record: impl for<'b> Fn(&S, Tensor<'b, T>) -> Tensor<'b, U> + Send + Sync + 'static,
    ) -> Self {
        let record = Arc::new(record);
        let make = move |device: &Device| {
            let (state, record) = (prepare(device)?, record.clone());
            let record: OpRecorder<T, U> = Box::new(move |x| record(&state, x));
            Ok(record)
        };
        Self { widths: RowWidths::new(input, output), make: Box::new(make) }
    }
}

impl<T: Element, U: Element> Replays<T, U> {
    /// The smallest replay for at least `rows` rows, and its rows. It is created on first use.
    fn of(&mut self, device: &Device, rows: usize, width: usize) -> Result<(&FrozenRows<T, U>, usize)> {
        let rows = rows.next_power_of_two().max(MIN_ROWS);
        if !self.frozen.contains_key(&rows) {
            let batch = device.batch();
            let (x, rows_in) = batch.input::<T>([rows, width]);
            let y = (self.record)(rows_in).output();
            let replay = batch.freeze()?;
            self.frozen.insert(rows, FrozenRows { replay, x, y });
        }
        Ok((&self.frozen[&rows], rows))
    }
}

impl<T: Element + Send, U: Element + Send> DeviceJob for RowReplays<T, U> {
    type Input = Vec<T>;
    type Output = Vec<U>;
    type Ready = Replays<T, U>;

    fn prepare(&self, device: &Device) -> Result<Self::Ready> {
        Ok(Replays { record: (self.make)(device)?, frozen: BTreeMap::new() })
    }

    whole_rows!();

    fn start(
        &self,
        replays: &mut Self::Ready,
        device: &Device,
        inputs: &[Vec<T>],
    ) -> Result<(Ticket, Answers<Vec<U>>)> {
        let (mut all, lengths) = self.widths.gather(inputs);
        let (frozen, rows) = replays.of(device, self.widths.rows(&all), self.widths.input)?;
        all.resize(rows * self.widths.input, T::zeroed());
        let mut run = frozen.replay.run();
        run.write(frozen.x, &all);
        let y = run.read(frozen.y);
        Ok((run.submit_async()?, Box::new(move || Ok(lengths.hand_out(&y.wait()?)))))
    }

    /// Without a replay.
    fn record(&self, replays: &mut Self::Ready, batch: &Batch, inputs: &[Vec<T>]) -> Result<Answers<Vec<U>>> {
        let (all, lengths) = self.widths.gather(inputs);
        let x = batch.tensor_from(&all, [self.widths.rows(&all), self.widths.input]);
        let y = (replays.record)(x).read();
        Ok(Box::new(move || Ok(lengths.hand_out(&y.wait()?))))
    }
}
