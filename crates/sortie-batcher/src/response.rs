//! A pending answer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{
    error::{Error, ErrorKind},
    handle::Handle,
    job::Job,
    reply::{Receiver, Reply},
    state::ReplyOf,
};

/// The answer to a request that was [sent](crate::RequestFuture::send): a future.
///
/// A request whose answer is dropped before its batch starts is left out.
///
/// ```
/// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
///
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// let response = batcher.call(1.0).send();
/// assert_eq!(response.wait()?, 0.5); // or `response.await?`
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
///
/// It has no options: the request has been sent with its own.
///
/// ```compile_fail,E0599
/// # use sortie_batcher::{BatchConfig, Batcher, Priority, batch_fn};
/// # let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// # let batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// batcher.call(1.0).send().priority(Priority::High);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
#[must_use = "a request whose answer is dropped is left out"]
pub struct ResponseFuture<J: Job> {
    handle: Arc<Handle<J>>,
    stage: ResponseStage<J>,
}

pub(crate) enum ResponseStage<J: Job> {
    /// Answered without a worker.
    Answered(Box<ReplyOf<J>>),
    Sent(Receiver<ReplyOf<J>>),
    /// Split into parts, with the answers so far.
    Several(Vec<Part<J>>),
    Over,
}

pub(crate) enum Part<J: Job> {
    Sent(Receiver<ReplyOf<J>>),
    Answered(J::Output),
}

// Nothing in it is pinned.
impl<J: Job> Unpin for ResponseFuture<J> {}

impl<J: Job> Future for ResponseFuture<J> {
    type Output = ReplyOf<J>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = match &mut this.stage {
            ResponseStage::Answered(_) => match std::mem::replace(&mut this.stage, ResponseStage::Over) {
                ResponseStage::Answered(answer) => Poll::Ready(*answer),
                _ => unreachable!("it was answered"),
            },
            ResponseStage::Sent(receiver) => this.handle.parked.poll(&this.handle.state, receiver, cx),
            ResponseStage::Several(_) => this.poll_several(cx),
            ResponseStage::Over => {
                let taken = Error::new(ErrorKind::Canceled, "the answer has been taken already");
                Poll::Ready(Err(taken.into()))
            }
        };
        if polled.is_ready() {
            this.stage = ResponseStage::Over;
        }
        polled
    }
}

impl<J: Job> ResponseFuture<J> {
    pub(crate) fn new(handle: Arc<Handle<J>>, stage: ResponseStage<J>) -> Self {
        Self { handle, stage }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Batcher::call_blocking`](crate::Batcher::call_blocking).
    pub fn wait(mut self) -> ReplyOf<J> {
        // If the answer is there, as after running the batch, waiting for it costs nothing.
        match Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => pollster::block_on(self),
        }
    }

    fn poll_several(&mut self, cx: &mut Context<'_>) -> Poll<ReplyOf<J>> {
        let ResponseStage::Several(parts) = &mut self.stage else { unreachable!("it was split") };
        let mut all = true;
        for part in parts.iter_mut() {
            let Part::Sent(receiver) = part else { continue };
            match receiver.poll(cx) {
                Reply::Answered(answer) => *part = Part::Answered(answer?),
                Reply::Waiting | Reply::Lead => all = false,
            }
        }
        if !all {
            return Poll::Pending;
        }
        let answers = parts.drain(..).filter_map(|part| match part {
            Part::Answered(answer) => Some(answer),
            Part::Sent(_) => None,
        });
        Poll::Ready(Ok(self.handle.job.join(answers.collect())))
    }
}

impl<J: Job> Drop for ResponseFuture<J> {
    fn drop(&mut self) {
        if let ResponseStage::Sent(receiver) = &mut self.stage
            && receiver.leave()
        {
            self.handle.state.pass_on();
        }
    }
}

impl<J: Job> fmt::Debug for ResponseFuture<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
