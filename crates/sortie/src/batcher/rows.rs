//! A kernel over rows, as a job.

use std::marker::PhantomData;

use super::{
    device_job::{Answers, DeviceJob},
    widths::whole_rows,
};
use crate::{
    batch::{Batch, FlatRows, Grid, RowWidths},
    device::Device,
    error::Result,
    kernel::Kernel,
    tensor::Element,
};

/// A kernel over rows of a fixed width, as a [`DeviceJob`], for the common case.
///
/// The kernel has two bindings: it reads the first and writes the second. It runs one invocation per row. A request is
/// any number of whole rows. For tensor operations there is [`RowReplays`](super::RowReplays).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, batcher::Rows};
///
/// // Sums of three numbers.
/// let sums = Rows::<f32, f32>::new([3, 1], "
///     @group(0) @binding(0) var<storage, read> x: array<f32>;
///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&y) { y[id.x] = x[3u * id.x] + x[3u * id.x + 1u] + x[3u * id.x + 2u]; }
///     }
/// ");
/// let batcher = Batcher::new(&Device::cpu()?, sums, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(vec![1.0, 2.0, 3.0, 10.0, 20.0, 30.0])?, [6.0, 60.0]);
/// assert!(batcher.call_blocking(vec![1.0, 2.0]).is_err()); // not a row
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows<T, U> {
    source: String,
    widths: RowWidths,
    elements: PhantomData<fn(T) -> U>,
}

impl<T: Element, U: Element> Rows<T, U> {
    /// Takes the widths of an input row and of an output row, and the kernel's source.
    #[must_use]
    pub fn new([input, output]: [usize; 2], source: &str) -> Self {
        Self { source: source.into(), widths: RowWidths::new(input, output), elements: PhantomData }
    }
}

impl<T: Element + Send, U: Element + Send> DeviceJob for Rows<T, U> {
    type Input = Vec<T>;
    type Output = Vec<U>;
    type Ready = Kernel;

    fn prepare(&self, device: &Device) -> Result<Kernel> {
        device.kernel(&self.source)
    }

    whole_rows!();

    fn record(&self, kernel: &mut Kernel, batch: &Batch, inputs: &[Vec<T>]) -> Result<Answers<Vec<U>>> {
        let (all, lengths) = self.widths.gather(inputs);
        let rows = self.widths.rows(&all);
        let x = batch.tensor_from(&all, [all.len()]);
        let y = batch.scratch::<U>(rows * self.widths.output);
        batch.dispatch(kernel, &[&FlatRows(&x), &FlatRows(&y)], Grid::items(rows));
        let y = batch.read(y);
        Ok(Box::new(move || Ok(lengths.hand_out(&y.wait()?))))
    }
}
