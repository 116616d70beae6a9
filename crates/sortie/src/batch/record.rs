//! A user's reusable piece of recording.

use super::Batch;

/// A reusable piece of recording: a layer, a filter, a time step. Its label is the scope of the ops it records.
///
/// ```
/// use sortie::{Batch, Buffer, Grid, Kernel, Record};
///
/// struct Double { kernel: Kernel, x: Buffer<f32> }
///
/// impl Record for Double {
///     fn label(&self) -> &str { "double" }
///     fn record(&self, batch: &mut Batch) {
///         batch.dispatch(&self.kernel, &[&self.x], Grid::items(self.x.len()));
///     }
/// }
/// # let device = sortie::Device::cpu()?;
/// # let kernel = device.kernel("@group(0) @binding(0) var<storage, read_write> x: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0; }")?;
/// let double = Double { kernel, x: device.zeros(64)? };
/// let mut batch = device.batch();
/// batch.record(&double);
/// batch.record_all(&[&double, &double]);
/// assert_eq!(batch.num_ops(), 3);
/// batch.submit()?;
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Record {
    /// Names the piece in errors and profiles.
    fn label(&self) -> &str;

    /// Appends its ops.
    fn record(&self, batch: &mut Batch);
}

impl Batch {
    /// Records one piece, in its own scope.
    pub fn record(&mut self, item: &dyn Record) {
        self.scope(item.label(), |batch| item.record(batch));
    }

    /// Records several pieces into the same submission, each in its own scope.
    ///
    /// ```
    /// use sortie::{Batch, Buffer, Record};
    ///
    /// struct Clear(Buffer<f32>);
    /// impl Record for Clear {
    ///     fn label(&self) -> &str { "clear" }
    ///     fn record(&self, batch: &mut Batch) { batch.fill(&self.0, 0.0); }
    /// }
    /// # let device = sortie::Device::cpu()?;
    /// let (one, two) = (Clear(device.zeros(8)?), Clear(device.zeros(16)?));
    /// let mut batch = device.batch();
    /// batch.record_all(&[&one, &two]);
    /// batch.submit()?; // one submission
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn record_all(&mut self, items: &[&dyn Record]) {
        for item in items {
            self.record(*item);
        }
    }
}
