//! The data that a batch reads back, and the handles that wait for it.

use std::{
    future::Future,
    marker::PhantomData,
    panic::Location,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytemuck::Pod;

use super::completion::Completion;
use crate::{
    error::{Error, ErrorKind, Result},
    finish::ReadReady,
    profile::{Log, Profile},
};

/// The data of all readings of one batch, set when the batch is done.
#[derive(Debug, Default)]
pub(crate) struct BatchReadback {
    readback: OnceLock<Arc<dyn ReadReady>>,
    /// Profile log, if the batch is profiled.
    log: OnceLock<Arc<Log>>,
}

impl BatchReadback {
    /// The batch is profiled with this log.
    pub(crate) fn set_log(&self, log: &Arc<Log>) {
        self.log.get_or_init(|| log.clone());
    }

    /// The profile. The batch must be done.
    pub(crate) fn profile(&self) -> Result<Profile> {
        let log = self.log.get().ok_or_else(|| Error::internal("a batch finished without its profile log"))?;
        match log.known() {
            Some(known) => Ok(known.clone()),
            None => Ok(log.profile(&self.stamps(log)?)),
        }
    }

    /// The timestamps that the device wrote. The batch must be done.
    pub(crate) fn stamps(&self, log: &Log) -> Result<Vec<u64>> {
        match (log.stamps(), self.readback.get()) {
            (Some(stamps), Some(readback)) => readback.copy::<u64>(stamps.start, 8 * stamps.count),
            _ => Ok(Vec::new()),
        }
    }

    /// The data. The batch must be done.
    fn ready(&self) -> Result<&Arc<dyn ReadReady>> {
        self.readback.get().ok_or_else(|| Error::internal("a batch finished without its readback"))
    }

    pub(crate) fn set(&self, readback: Arc<dyn ReadReady>) {
        // Called once per batch. If it were called twice, the first data would stay.
        drop(self.readback.set(readback));
    }
}

/// Data that a batch reads back ([`Batch::read`](crate::Batch::read)), or its profile
/// ([`Batch::profile`](crate::Batch::profile)). Available when the batch is done.
///
/// It is a `Future` for any executor and a handle to wait on. If the batch fails, is refused or is dropped, it resolves
/// with that error. Waiting before the batch is submitted returns [`NotSubmitted`](crate::ErrorKind::NotSubmitted) at
/// once.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.upload(&[1_u32, 2, 3])?;
/// let batch = device.batch();
/// let reading = batch.read(&x);
/// batch.submit_async()?; // the ticket may be dropped: the reading reports errors too
/// assert_eq!(reading.wait()?, [1, 2, 3]); // or `reading.await?`
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Reading {{ bytes: {bytes}, ready: {}, .. }}", self.is_ready())]
#[must_use = "a reading does nothing until it is waited for or awaited"]
pub struct Reading<T> {
    completion: Arc<Completion>,
    key: u64,
    readback: Arc<BatchReadback>,
    start: u64,
    bytes: u64,
    elements: PhantomData<fn() -> T>,
}

/// Types that a [`Reading`] can return: elements, as a `Vec`, or a [`Profile`].
///
/// ```
/// use sortie::{Reading, batch::Readable};
///
/// fn all<T: Readable>(readings: Vec<Reading<T>>) -> sortie::Result<Vec<T::Output>> {
///     readings.into_iter().map(|reading| reading.wait()).collect()
/// }
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
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

        /// The batch must be done. `last`: no later call needs the data, so it may be moved out.
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
        let readback = readback.ready()?;
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

    /// Whether the batch is done, successfully or not.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.completion.is_done()
    }
}

impl<T: Readable> Reading<T> {
    /// Waits for the data.
    ///
    /// # Errors
    /// The first error of the batch, the same one its ticket reports. Also [`DeviceLost`](crate::ErrorKind::DeviceLost)
    /// if the device is destroyed after the batch is done and before this call, because the data is lost with the
    /// device.
    pub fn wait(self) -> Result<T::Output> {
        self.completion.wait()?;
        T::get(&self, true)
    }

    /// Waits for the data, at most `timeout`.
    ///
    /// # Errors
    /// [`Timeout`](crate::ErrorKind::Timeout) if the batch is not done by then (call it again later), else the first
    /// error of the batch.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<T::Output> {
        self.completion.wait_timeout(timeout)?;
        T::get(self, false)
    }
}

impl<T: Pod> Reading<T> {
    /// Waits for the data and copies it to `elements`, which has as many elements.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// let mut pixels = [0; 3]; // of a window, for example
    /// let batch = device.batch();
    /// let reading = batch.read(&x);
    /// batch.submit()?;
    /// reading.wait_into(&mut pixels)?;
    /// assert_eq!(pixels, [1, 2, 3]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Reading::wait`]; [`Shape`](ErrorKind::Shape) if `elements` has another length.
    #[track_caller]
    pub fn wait_into(self, elements: &mut [T]) -> Result<()> {
        self.completion.wait()?;
        let into: &mut [u8] = bytemuck::cast_slice_mut(elements);
        if into.len() as u64 != self.bytes {
            let size = size_of::<T>().max(1);
            let message = format!("the reading has {} elements, not {}", self.bytes / size as u64, into.len() / size);
            return Err(Error::new(ErrorKind::Shape, message).at(Location::caller()));
        }
        if into.is_empty() {
            return Ok(());
        }
        self.readback.ready()?.with(self.start, into.len(), &mut |bytes| into.copy_from_slice(bytes))
    }
}

impl<T: Readable> Future for Reading<T> {
    type Output = Result<T::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.completion.poll(self.key, cx)).and_then(|()| T::get(&self, false)))
    }
}
