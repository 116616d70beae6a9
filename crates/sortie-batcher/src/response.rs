//! A pending answer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::{
    config::Overload,
    error::{Error, ErrorKind},
    handle::Handle,
    job::Job,
    queue::Priority,
    reply::Receiver,
    state::{Admission, ReplyOf},
};

/// Options of a request.
///
/// ```
/// use std::time::{Duration, Instant};
/// use sortie_batcher::{CallOptions, Priority};
///
/// let options = CallOptions { deadline: Some(Instant::now() + Duration::from_millis(50)), ..CallOptions::default() };
/// assert_eq!(options.priority, Priority::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// A request that is not started by then fails with [`Expired`](ErrorKind::Expired). A started request is answered
    /// even if late.
    pub deadline: Option<Instant>,
    /// The priority of the request.
    pub priority: Priority,
}

/// A pending answer: a future. Nothing is sent before it is polled or [sent](ResponseFuture::send).
///
/// A request that is dropped before its batch starts is left out.
///
/// ```
/// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
///
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// let response = batcher.call(1.0);
/// assert_eq!(response.wait()?, 0.5); // or `response.await?`
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct ResponseFuture<J: Job> {
    handle: Arc<Handle<J>>,
    options: CallOptions,
    stage: Stage<J>,
}

enum Stage<J: Job> {
    New(J::Input),
    /// Answered without a worker.
    Answered(Box<ReplyOf<J>>),
    Sent(Receiver<ReplyOf<J>>),
    /// Split into parts, with the answers so far.
    Several(Vec<Part<J>>),
    Over,
}

enum Part<J: Job> {
    Sent(Receiver<ReplyOf<J>>),
    Answered(J::Output),
}

// The input is moved, never pinned.
impl<J: Job> Unpin for ResponseFuture<J> {}

impl<J: Job> Future for ResponseFuture<J> {
    type Output = ReplyOf<J>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.stage {
            Stage::New(_) => self.ask(cx),
            Stage::Answered(_) => match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Answered(answer) => Poll::Ready(*answer),
                _ => unreachable!("it was answered"),
            },
            Stage::Sent(receiver) => receiver.poll(cx),
            Stage::Several(_) => self.poll_several(cx),
            Stage::Over => {
                let taken = Error::new(ErrorKind::Canceled, "the answer has been taken already");
                Poll::Ready(Err(taken.into()))
            }
        };
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        polled
    }
}

impl<J: Job> ResponseFuture<J> {
    pub(crate) fn new(handle: Arc<Handle<J>>, input: J::Input, options: CallOptions) -> Self {
        Self { handle, options, stage: Stage::New(input) }
    }

    /// Sends the request now. The answer can be awaited later, so one caller can have many requests in flight.
    ///
    /// ```
    /// # use sortie_batcher::{BatchConfig, Batcher, batch_fn};
    /// # let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// # let batcher = Batcher::new([()], halve, BatchConfig::default())?;
    /// let responses = [1.0, 2.0, 3.0].map(|x| batcher.call(x).send());
    /// for (response, half) in responses.into_iter().zip([0.5, 1.0, 1.5]) {
    ///     assert_eq!(response.wait()?, half);
    /// }
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    pub fn send(mut self) -> Self {
        if let Stage::New(_) = self.stage {
            let polled = Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(answer) = polled {
                self.stage = Stage::Answered(Box::new(answer));
            }
        }
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Batcher::call_blocking`](crate::Batcher::call_blocking).
    pub fn wait(self) -> ReplyOf<J> {
        pollster::block_on(self)
    }

    fn ask(&mut self, cx: &mut Context<'_>) -> Poll<ReplyOf<J>> {
        let Stage::New(input) = std::mem::replace(&mut self.stage, Stage::Over) else { unreachable!("it is new") };
        let job = &self.handle.job;
        job.check(&input)?;
        if let Some(answer) = job.answer_immediately(&input) {
            return Poll::Ready(Ok(answer));
        }
        let most = self.handle.state.config.max_batch_size.max(1);
        if job.rows(&input) <= most {
            return match self.admit(input, true, cx) {
                Ok(receiver) => {
                    self.stage = Stage::Sent(receiver);
                    Poll::Pending
                }
                Err(refused) => Poll::Ready(refused),
            };
        }
        let mut parts = Vec::new();
        for part in job.split(input, most) {
            // Admitting the first part admits the whole request.
            match self.admit(part, parts.is_empty(), cx) {
                Ok(receiver) => parts.push(Part::Sent(receiver)),
                Err(refused) => return Poll::Ready(refused),
            }
        }
        if parts.is_empty() {
            return Poll::Ready(Err(Error::new(ErrorKind::Shape, "a job split an input into nothing").into()));
        }
        self.stage = Stage::Several(parts);
        Poll::Pending
    }

    /// # Errors
    /// The answer of a request that is not admitted.
    fn admit(&self, input: J::Input, first: bool, cx: &Context<'_>) -> Result<Receiver<ReplyOf<J>>, ReplyOf<J>> {
        let (Handle { job, state, .. }, CallOptions { deadline, priority }) = (&*self.handle, self.options);
        let (key, rows) = (job.key(&input), job.rows(&input).max(1));
        let overload = if first { state.config.overload } else { Overload::Wait };
        state.admit(input, Admission { key, rows, priority, deadline, overload }, cx.waker())
    }

    fn poll_several(&mut self, cx: &mut Context<'_>) -> Poll<ReplyOf<J>> {
        let Stage::Several(parts) = &mut self.stage else { unreachable!("it was split") };
        let mut all = true;
        for part in parts.iter_mut() {
            let Part::Sent(receiver) = part else { continue };
            match receiver.poll(cx) {
                Poll::Ready(answer) => *part = Part::Answered(answer?),
                Poll::Pending => all = false,
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

impl<J: Job> fmt::Debug for ResponseFuture<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("options", &self.options).finish_non_exhaustive()
    }
}
