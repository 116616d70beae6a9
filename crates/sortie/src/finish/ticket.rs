//! Completion of a submitted batch, as its submitter holds it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::completion::Completion;
use crate::error::Result;

/// Completion of a submitted batch.
///
/// A `Future` on any executor, and a handle to wait on from any thread. It wakes when *its* submission is done, not a later one.
/// Dropping it detaches: the batch runs on, and its readings still report how it ended. So `batch.submit_async()?;` is fine as a statement.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.zeros::<f32>(16)?;
/// let mut batch = device.batch();
/// batch.fill(&x, 1.0);
/// let ticket = batch.submit_async()?;
/// ticket.wait()?; // or `ticket.await?`
/// assert!(ticket.is_ready());
/// # Ok::<(), sortie::Error>(())
/// ```
pub struct Ticket {
    completion: Arc<Completion>,
    key: u64,
}

impl Ticket {
    pub(crate) fn new(completion: Arc<Completion>) -> Self {
        Self { key: completion.key(), completion }
    }

    /// Waits until the batch is done.
    ///
    /// # Errors
    /// The first error of the batch, the same one its readings report.
    pub fn wait(&self) -> Result<()> {
        self.completion.wait()
    }

    /// Waits until the batch is done, but no longer than `timeout`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie::ErrorKind;
    /// # let device = sortie::Device::cpu()?;
    /// let ticket = device.batch().submit_async()?;
    /// loop {
    ///     match ticket.wait_timeout(Duration::from_millis(100)) {
    ///         Err(error) if error.kind() == &ErrorKind::Timeout => println!("still at it"),
    ///         ended => break ended?,
    ///     }
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Timeout`](crate::ErrorKind::Timeout) when it is not done by then (the work goes on, and the ticket can be waited on again),
    /// else the first error of the batch.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.completion.wait_timeout(timeout)
    }

    /// Whether the batch has ended, well or not.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.completion.is_done()
    }

    /// Ends the batch early, if it is not over: ticket and readings resolve with [`Canceled`](crate::ErrorKind::Canceled).
    ///
    /// A batch that has not started ends at once, without any effect. On the built-in CPU one that runs stops in the middle of its
    /// kernel; elsewhere what has gone to the device runs to its end, and only the submissions after it ([`Batch::split`](crate::Batch::split))
    /// are dropped. What a batch that had started should still have written is [`Poisoned`](crate::ErrorKind::Poisoned).
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.zeros::<f32>(16)?;
    /// let mut batch = device.batch();
    /// batch.fill(&x, 1.0);
    /// let ticket = batch.submit_async()?;
    /// ticket.cancel();
    /// if let Err(error) = ticket.wait() {
    ///     assert_eq!(error.kind(), &sortie::ErrorKind::Canceled); // it was in time
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn cancel(&self) {
        self.completion.cancel();
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.completion.poll(self.key, cx)
    }
}

impl Clone for Ticket {
    /// Another ticket of the same batch, to be waited for on its own.
    fn clone(&self) -> Self {
        Self::new(self.completion.clone())
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("ready", &self.is_ready()).finish()
    }
}
