//! Reading a buffer back: a batch of one read.

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;

use super::Batch;
use crate::{
    device::{Buffer, Slice},
    error::Result,
    finish::{Completion, Reading},
};

impl<T: Pod> Buffer<T> {
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
        let batch = Batch::new(self.buffer().block().map(|_| self.buffer().core().clone())?);
        let reading = batch.read(*self);
        Some((batch, reading))
    }
}
