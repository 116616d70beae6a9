//! A request that is not sent yet, and its options.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    caller::{CallerKind, CallerTask},
    config::Overload,
    error::{Error, ErrorKind},
    handle::Handle,
    job::Job,
    queue::Priority,
    reply::Receiver,
    response::{Part, ResponseFuture, ResponseStage},
    state::{Admission, ReplyOf},
};

/// Options of a request, for callers that store them. [`RequestFuture::within`] and [`RequestFuture::priority`] set
/// them one by one.
///
/// ```
/// use std::time::{Duration, Instant};
/// use sortie_batcher::{BatchConfig, Batcher, CallOptions, Priority, batch_fn};
///
/// let options = CallOptions { deadline: Some(Instant::now() + Duration::from_secs(60)), ..CallOptions::default() };
/// assert_eq!(options.priority, Priority::Normal);
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// assert_eq!(batcher.call(3.0).with(options).wait()?, 1.5);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// A request that is not started by then fails with [`Expired`](ErrorKind::Expired). A started request is answered
    /// even if late.
    pub deadline: Option<Instant>,
    /// The priority of the request.
    pub priority: Priority,
}

/// A request, and the future of its answer. It is sent when it is first polled, or by [`send`](RequestFuture::send).
/// Its options are set before that; later they change nothing.
///
/// A request that is dropped before its batch starts is left out.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::{BatchConfig, Batcher, ErrorKind, Priority, batch_fn};
///
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// let urgent = batcher.call(3.0).within(Duration::from_secs(60)).priority(Priority::High);
/// assert_eq!(urgent.wait()?, 1.5); // or `urgent.await?`
/// let late = batcher.call(3.0).within(Duration::ZERO);
/// assert_eq!(late.wait().unwrap_err().kind(), ErrorKind::Expired);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct RequestFuture<J: Job> {
    options: CallOptions,
    state: State<J>,
}

enum State<J: Job> {
    Unsent(Arc<Handle<J>>, J::Input),
    Sent(ResponseFuture<J>),
    /// Only while it is being sent.
    Moved,
}

// The input is moved, never pinned.
impl<J: Job> Unpin for RequestFuture<J> {}

impl<J: Job> Future for RequestFuture<J> {
    type Output = ReplyOf<J>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Sent(response) = &mut self.state {
            return Pin::new(response).poll(cx);
        }
        let State::Unsent(handle, input) = std::mem::replace(&mut self.state, State::Moved) else {
            unreachable!("it is not being sent")
        };
        let caller = if handle.job.runs_in_polls() { CallerKind::Polled } else { CallerKind::Later };
        let (stage, task) = match request(&handle, input, self.options, caller, cx.waker()) {
            Ok(sent) => sent,
            Err(answer) => {
                self.state = State::Sent(ResponseFuture::new(handle, ResponseStage::Over));
                return Poll::Ready(answer);
            }
        };
        let mut response = ResponseFuture::new(handle, stage);
        let polled = match task {
            CallerTask::Wait => Poll::Pending,
            // It may have its answer.
            CallerTask::Run(_) => Pin::new(&mut response).poll(cx),
            CallerTask::Lead => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        };
        self.state = State::Sent(response);
        polled
    }
}

impl<J: Job> RequestFuture<J> {
    pub(crate) fn new(handle: Arc<Handle<J>>, input: J::Input) -> Self {
        Self { options: CallOptions::default(), state: State::Unsent(handle, input) }
    }

    /// Sets the deadline: this long from now. A request that is not started by then fails with
    /// [`Expired`](ErrorKind::Expired). A started request is answered even if late.
    pub fn within(mut self, time: Duration) -> Self {
        // A time that no clock reaches is no deadline.
        self.options.deadline = Instant::now().checked_add(time);
        self
    }

    /// Sets the priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.priority = priority;
        self
    }

    /// Sets all options.
    pub fn with(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
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
    pub fn send(self) -> ResponseFuture<J> {
        match self.state {
            State::Unsent(handle, input) => {
                let sent = request(&handle, input, self.options, CallerKind::Later, Waker::noop());
                let stage = sent.map_or_else(|answer| ResponseStage::Answered(Box::new(answer)), |(stage, _)| stage);
                ResponseFuture::new(handle, stage)
            }
            State::Sent(response) => response,
            State::Moved => unreachable!("it is not being sent"),
        }
    }

    /// Sends the request and waits for the answer.
    ///
    /// # Errors
    /// As [`Batcher::call_blocking`](crate::Batcher::call_blocking).
    pub fn wait(self) -> ReplyOf<J> {
        match self.state {
            State::Unsent(handle, input) => {
                match request(&handle, input, self.options, CallerKind::Blocked, Waker::noop()) {
                    Ok((stage, _)) => ResponseFuture::new(handle, stage).wait(),
                    Err(answer) => answer,
                }
            }
            State::Sent(response) => response.wait(),
            State::Moved => unreachable!("it is not being sent"),
        }
    }
}

/// Sends a request, in parts if it is too large for a batch. Runs its batch if the caller is to run it now.
///
/// # Errors
/// The answer of a request that needs no worker, or is not admitted.
fn request<J: Job>(
    handle: &Handle<J>,
    input: J::Input,
    options: CallOptions,
    caller: CallerKind,
    waker: &Waker,
) -> Result<(ResponseStage<J>, CallerTask), ReplyOf<J>> {
    let job = &handle.job;
    job.check(&input).map_err(Err)?;
    if let Some(answer) = job.answer_immediately(&input) {
        return Err(Ok(answer));
    }
    let most = handle.state.config.max_batch_size.max(1);
    if job.rows(&input) <= most {
        let (receiver, task) = admit(handle, input, options, true, caller, waker)?;
        handle.parked.perform(&handle.state, task, &receiver);
        return Ok((ResponseStage::Sent(receiver), task));
    }
    let mut parts = Vec::new();
    for part in job.split(input, most) {
        // Admitting the first part admits the whole request.
        parts.push(Part::Sent(admit(handle, part, options, parts.is_empty(), CallerKind::Later, waker)?.0));
    }
    if parts.is_empty() {
        return Err(Err(Error::new(ErrorKind::Shape, "a job split an input into nothing").into()));
    }
    Ok((ResponseStage::Several(parts), CallerTask::Wait))
}

/// # Errors
/// The answer of a request that is not admitted.
fn admit<J: Job>(
    handle: &Handle<J>,
    input: J::Input,
    options: CallOptions,
    first: bool,
    caller: CallerKind,
    waker: &Waker,
) -> Result<(Receiver<ReplyOf<J>>, CallerTask), ReplyOf<J>> {
    let (Handle { job, state, .. }, CallOptions { deadline, priority }) = (handle, options);
    let (key, rows) = (job.key(&input), job.rows(&input).max(1));
    let overload = if first { state.config.overload } else { Overload::Wait };
    state.admit(input, Admission { key, rows, priority, deadline, overload, caller }, waker)
}

impl<J: Job> fmt::Debug for RequestFuture<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestFuture").field("options", &self.options).finish_non_exhaustive()
    }
}
