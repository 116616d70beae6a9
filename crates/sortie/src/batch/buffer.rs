//! Operations on a buffer alone: a batch of one op each.

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;

use super::Batch;
use crate::{
    device::{Buffer, Device, Slice},
    error::{CallSite, Result},
    finish::{Completion, Reading},
};

impl Device {
    /// Allocates memory for `len` elements that are all `value`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// assert_eq!(device.full(3, 1.5_f32)?.download()?, [1.5; 3]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::upload`].
    #[track_caller]
    pub fn full<T: Pod>(&self, len: usize, value: T) -> Result<Buffer<T>> {
        let buffer = self.zeros(len)?;
        buffer.fill(value)?;
        Ok(buffer)
    }
}

impl<T: Pod> Buffer<T> {
    /// Sets all elements to `value`, in order with the batches submitted before and after.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// x.fill(7)?;
    /// assert_eq!(x.download()?, [7; 3]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::submit`](crate::Batch::submit).
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        self.slice(..).fill(value)
    }

    /// Copies all elements of another buffer of the same length, in order with the batches submitted before and after.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let (x, y) = (device.upload(&[1_u32, 2, 3])?, device.zeros::<u32>(3)?);
    /// y.copy_from(&x)?;
    /// assert_eq!(y.download()?, [1, 2, 3]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Shape`](crate::ErrorKind::Shape) if the lengths differ; else as [`Batch::submit`](crate::Batch::submit).
    #[track_caller]
    pub fn copy_from(&self, other: &Self) -> Result<()> {
        self.slice(..).copy_from(other.slice(..))
    }

    /// Reads all elements, in order with the batches submitted before.
    ///
    /// # Errors
    /// [`Poisoned`](crate::ErrorKind::Poisoned) after a failed submission that writes it,
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost), [`Bindings`](crate::ErrorKind::Bindings) if an imported buffer
    /// lacks `COPY_SRC`.
    #[track_caller]
    pub fn download(&self) -> Result<Vec<T>> {
        self.slice(..).download()
    }

    /// As [`Buffer::download`], without waiting.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// let reading = x.download_async()?;
    /// assert_eq!(reading.wait()?, [1, 2, 3]); // or `reading.await?`
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Buffer::download`], except that errors of execution are returned by the reading.
    #[track_caller]
    pub fn download_async(&self) -> Result<Reading<T>> {
        self.slice(..).download_async()
    }
}

impl<T: Pod> Slice<'_, T> {
    /// Sets these elements to `value`, in order with the batches submitted before and after.
    ///
    /// # Errors
    /// As [`Batch::submit`].
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        self.submit_one(Location::caller(), |batch| batch.fill(*self, value))
    }

    /// Copies a slice of the same length, in order with the batches submitted before and after.
    ///
    /// # Errors
    /// [`Shape`](crate::ErrorKind::Shape) if the lengths differ or a range does not fit; else as [`Batch::submit`].
    #[track_caller]
    pub fn copy_from(&self, other: Slice<'_, T>) -> Result<()> {
        self.submit_one(Location::caller(), |batch| batch.copy(other, *self))
    }

    /// Submits a batch of one op without waiting for it: later operations on the memory are ordered behind it.
    fn submit_one(&self, here: CallSite, record: impl FnOnce(&Batch)) -> Result<()> {
        let batch = Batch::new(self.memory.core.clone());
        record(&batch);
        batch.submit_async().map(drop).map_err(|error| error.at(here))
    }

    /// Reads these elements, in order with the batches submitted before.
    ///
    /// # Errors
    /// As [`Buffer::download`]; [`Shape`](crate::ErrorKind::Shape) if the range does not fit or is misaligned.
    #[track_caller]
    pub fn download(&self) -> Result<Vec<T>> {
        let here = Location::caller();
        match self.recorded() {
            Some((batch, reading)) => {
                batch.submit().map_err(|error| error.at(here))?;
                reading.wait()
            }
            None => Ok(Vec::new()),
        }
    }

    /// As [`Slice::download`], without waiting.
    ///
    /// # Errors
    /// As [`Slice::download`], except that errors of execution are returned by the reading.
    #[track_caller]
    pub fn download_async(&self) -> Result<Reading<T>> {
        let here = Location::caller();
        match self.recorded() {
            Some((batch, reading)) => {
                // Detached: the reading itself reports errors.
                drop(batch.submit_async().map_err(|error| error.at(here))?);
                Ok(reading)
            }
            None => {
                let completion = Arc::new(Completion::new());
                completion.finish(Ok(()));
                Ok(Reading::new(completion, Arc::default(), 0, 0))
            }
        }
    }

    /// A batch that reads it; `None` for a buffer without elements.
    fn recorded(&self) -> Option<(Batch, Reading<T>)> {
        let batch = Batch::new(self.memory.block.as_ref().map(|_| self.memory.core.clone())?);
        let reading = batch.read(*self);
        Some((batch, reading))
    }
}
