//! What a batch reads back: where its data will be, and the handles that wait for it.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytemuck::Pod;

use super::completion::Completion;
use crate::{
    error::{Error, Result},
    finish::ReadReady,
    profile::{Log, Profile},
};

/// Where the data of all readings of one batch will be, set when the batch lands.
#[derive(Debug, Default)]
pub(crate) struct BatchReadback {
    readback: OnceLock<Arc<dyn ReadReady>>,
    /// Where somebody wants to know what it takes.
    log: OnceLock<Arc<Log>>,
}

impl BatchReadback {
    /// It is written down what the batch takes.
    pub(crate) fn set_log(&self, log: &Arc<Log>) {
        self.log.get_or_init(|| log.clone());
    }

    /// What the batch took. It has landed.
    pub(crate) fn profile(&self) -> Result<Profile> {
        let log = self.log.get().ok_or_else(|| Error::internal("a batch landed without its log"))?;
        match log.known() {
            Some(known) => Ok(known.clone()),
            None => Ok(log.profile(&self.stamps(log)?)),
        }
    }

    /// What the device wrote down. The batch has landed.
    pub(crate) fn stamps(&self, log: &Log) -> Result<Vec<u64>> {
        match (log.stamps(), self.readback.get()) {
            (Some(stamps), Some(readback)) => readback.copy::<u64>(stamps.start, 8 * stamps.count),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) fn set(&self, readback: Arc<dyn ReadReady>) {
        // A second landing cannot happen; if it did, the first one's data stays.
        drop(self.readback.set(readback));
    }
}

/// Data to come: what [`Batch::read`](crate::Batch::read) or [`Batch::profile`](crate::Batch::profile) asked for, there when the batch is done.
///
/// A `Future` on any executor, and a handle to wait on. Of a batch that was dropped or refused it resolves with that error; waiting
/// before the batch was submitted is [`NotSubmitted`](crate::ErrorKind::NotSubmitted) at once.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1_u32, 2, 3])?;
/// let mut batch = device.batch();
/// let reading = batch.read(&x);
/// batch.submit_async()?; // dropping its ticket is fine: the reading hears of everything, too
/// assert_eq!(reading.wait()?, [1, 2, 3]); // or `reading.await?`
/// # Ok::<(), sortie::Error>(())
/// ```
#[must_use = "a reading does nothing until it is waited for or awaited"]
pub struct Reading<T> {
    completion: Arc<Completion>,
    key: u64,
    readback: Arc<BatchReadback>,
    start: u64,
    bytes: u64,
    elements: PhantomData<fn() -> T>,
}

/// What a [`Reading`] can be of: elements, which come as a `Vec`, or a [`Profile`].
///
/// ```
/// use sortie::{Reading, batch::Readable};
///
/// fn all<T: Readable>(readings: Vec<Reading<T>>) -> sortie::Result<Vec<T::Output>> {
///     readings.into_iter().map(|reading| reading.wait()).collect()
/// }
/// # let device = sortie::Device::cpu()?;
/// let mut batch = device.batch();
/// let profile = batch.profile();
/// batch.submit()?;
/// assert_eq!(all(vec![profile])?[0].ops().len(), 0);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Readable: sealed::Read {}

impl<T: Pod> Readable for T {}
impl Readable for Profile {}

mod sealed {
    use super::{Reading, Result};

    pub trait Read: Sized {
        type Output;

        /// The batch has landed. Whoever asks for the `last` time need not leave anything for others.
        fn get(reading: &Reading<Self>, last: bool) -> Result<Self::Output>;
    }
}

impl<T: Pod> sealed::Read for T {
    type Output = Vec<T>;

    fn get(reading: &Reading<Self>, last: bool) -> Result<Vec<T>> {
        let Reading { readback, start, bytes, .. } = reading;
        if *bytes == 0 {
            return Ok(Vec::new());
        }
        let readback = readback.readback.get();
        let readback = readback.ok_or_else(|| Error::internal("a batch landed without the data it reads"))?;
        if last { readback.take_or_copy(*start, *bytes) } else { readback.copy(*start, *bytes) }
    }
}

impl sealed::Read for Profile {
    type Output = Self;

    fn get(reading: &Reading<Self>, _last: bool) -> Result<Self> {
        reading.readback.profile()
    }
}

impl<T> Reading<T> {
    pub(crate) fn new(completion: Arc<Completion>, readback: Arc<BatchReadback>, start: u64, bytes: u64) -> Self {
        Self { key: completion.key(), completion, readback, start, bytes, elements: PhantomData }
    }

    /// Whether the batch has ended, well or not.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.completion.is_done()
    }
}

impl<T: Readable> Reading<T> {
    /// Waits for the data.
    ///
    /// # Errors
    /// The first error of the batch, the same one its ticket reports; [`DeviceLost`](crate::ErrorKind::DeviceLost) also when the device was destroyed after the batch was done and before this is called, because the
    /// data goes with it.
    pub fn wait(self) -> Result<T::Output> {
        self.completion.wait()?;
        T::get(&self, true)
    }

    /// Waits for the data, but no longer than `timeout`.
    ///
    /// # Errors
    /// [`Timeout`](crate::ErrorKind::Timeout) when it is not there by then (ask again later), else the first error of the batch.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<T::Output> {
        self.completion.wait_timeout(timeout)?;
        T::get(self, false)
    }
}

impl<T: Readable> Future for Reading<T> {
    type Output = Result<T::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.completion.poll(self.key, cx)).and_then(|()| T::get(&self, false)))
    }
}

impl<T> fmt::Debug for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("bytes", &self.bytes)
            .field("ready", &self.completion.is_done())
            .finish_non_exhaustive()
    }
}
