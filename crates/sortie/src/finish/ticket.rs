//! The handle that waits for a submitted batch.

use std::{
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
/// It is a `Future` for any executor and a handle to wait on from any thread. It wakes when *its* batch is done, not a
/// later one. Dropping it detaches: the batch still runs, and its readings still report errors. So
/// `batch.submit_async()?;` is fine as a statement.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let x = device.zeros::<f32>(16)?;
/// let batch = device.batch();
/// batch.fill(&x, 1.0);
/// let ticket = batch.submit_async()?;
/// ticket.wait()?; // or `ticket.await?`
/// assert!(ticket.is_ready());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Ticket {{ ready: {} }}", self.is_ready())]
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

    /// Waits until the batch is done, at most `timeout`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie::ErrorKind;
    /// # let device = sortie::Device::cpu()?;
    /// let ticket = device.batch().submit_async()?;
    /// loop {
    ///     match ticket.wait_timeout(Duration::from_millis(100)) {
    ///         Err(error) if error.kind() == ErrorKind::Timeout => println!("still at it"),
    ///         ended => break ended?,
    ///     }
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Timeout`](crate::ErrorKind::Timeout) if it is not done by then (the batch still runs, and the ticket can be
    /// waited on again), else the first error of the batch.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.completion.wait_timeout(timeout)
    }

    /// Whether the batch is done, successfully or not.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.completion.is_done()
    }

    /// Cancels the batch if it is not done: ticket and readings resolve with [`Canceled`](crate::ErrorKind::Canceled).
    ///
    /// A batch that has not started ends at once and has no effect. The built-in CPU device stops a running batch in
    /// the middle of its kernel. On other devices a submission that is in flight runs to its end, and only later
    /// submissions of the batch ([`Batch::split`](crate::Batch::split)) are dropped. Buffers that a started batch had
    /// still to write are [`Poisoned`](crate::ErrorKind::Poisoned). A batch in an application's encoder
    /// ([`Batch::encode`](crate::Batch::encode)) cannot be canceled: drop the encoder or command buffer instead.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.zeros::<f32>(16)?;
    /// let batch = device.batch();
    /// batch.fill(&x, 1.0);
    /// let ticket = batch.submit_async()?;
    /// ticket.cancel();
    /// if let Err(error) = ticket.wait() {
    ///     assert_eq!(error.kind(), sortie::ErrorKind::Canceled); // it was in time
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
    /// Another ticket of the same batch, with its own waker.
    fn clone(&self) -> Self {
        Self::new(self.completion.clone())
    }
}
