//! A user's reusable piece of recording.

use std::panic::Location;

use super::Batch;
use crate::error::{Error, ErrorKind};

/// A reusable piece of recording: a layer, a filter, a time step. Its label is the scope of the ops it records.
///
/// It may return something: a tensor, scratch, a reading. Closures `Fn(&Batch) -> R` are operations without a label.
///
/// ```
/// use sortie::{Batch, Buffer, Grid, Kernel, Record, Slot};
///
/// struct Double<'a> { kernel: &'a Kernel, x: &'a Buffer<f32> }
///
/// impl Record<'_> for Double<'_> {
///     type Output = Slot<f32>;
///
///     fn label(&self) -> &str { "double" }
///
///     fn record(&self, batch: &Batch) -> Slot<f32> {
///         if self.x.is_empty() {
///             batch.mistake("double: the buffer is empty");
///         }
///         let doubled = batch.scratch(self.x.len());
///         batch.dispatch(self.kernel, &[self.x, &doubled], Grid::items(self.x.len()));
///         doubled
///     }
/// }
/// # let device = sortie::Device::cpu()?;
/// # let kernel = device.kernel("
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
/// #     }")?;
/// let x = device.upload(&[1.0_f32, 2.0])?;
/// let batch = device.batch();
/// let doubled = batch.record(&Double { kernel: &kernel, x: &x });
/// let doubled = batch.read(doubled);
/// batch.submit()?;
/// assert_eq!(doubled.wait()?, [2.0, 4.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Record<'b> {
    /// What it returns.
    type Output;

    /// Names the piece in errors and profiles; by default it has no name.
    fn label(&self) -> &str {
        ""
    }

    /// Appends its ops.
    fn record(&self, batch: &'b Batch) -> Self::Output;
}

impl<'b, R, F: Fn(&'b Batch) -> R> Record<'b> for F {
    type Output = R;

    fn record(&self, batch: &'b Batch) -> R {
        self(batch)
    }
}

impl Batch {
    /// Records one piece, in its own scope, and returns what it returns.
    ///
    /// A mistake inside the piece names this call's line. The line inside the piece is the mistake's
    /// [source](std::error::Error::source).
    #[track_caller]
    pub fn record<'b, R: Record<'b> + ?Sized>(&'b self, item: &R) -> R::Output {
        let outer = self.recorder().enter(Location::caller());
        let output = match item.label() {
            "" => item.record(self),
            label => self.scope(label, |batch| item.record(batch)),
        };
        self.recorder().leave(outer);
        output
    }

    /// Records several pieces of any types into the same submission, each in its own scope.
    ///
    /// ```
    /// use sortie::{Batch, Buffer, Record};
    ///
    /// struct Clear(Buffer<f32>);
    /// impl Record<'_> for Clear {
    ///     type Output = ();
    ///     fn label(&self) -> &str { "clear" }
    ///     fn record(&self, batch: &Batch) { batch.fill(&self.0, 0.0); }
    /// }
    /// # let device = sortie::Device::cpu()?;
    /// let (one, two) = (Clear(device.zeros(8)?), device.zeros::<u32>(16)?);
    /// let batch = device.batch();
    /// batch.record_all(&[&one, &|batch: &Batch| batch.fill(&two, 7)]);
    /// batch.submit()?; // one submission
    /// assert_eq!(two.download()?, [7; 16]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn record_all<'b>(&'b self, items: &[&dyn Record<'b, Output = ()>]) {
        for item in items {
            self.record(*item);
        }
    }

    /// Reports a mistake of an operation of your own. As with every mistake, recording goes on, and `submit` returns it.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// batch.mistake("bins must be 256");
    /// let error = batch.submit().unwrap_err();
    /// assert!(error.to_string().starts_with("bins must be 256; "));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn mistake(&self, message: impl Into<String>) {
        self.recorder().refuse(Error::new(ErrorKind::Input, message), Location::caller());
    }
}
