//! An answer to come.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    Handle, Job,
    config::Overload,
    front::{Call, Rank},
    reply::Reply,
};
use crate::error::{Error, ErrorKind, Result};

/// An answer to come: a future. Nothing is asked before it is polled or [told to](Calling::begin).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Calling, Device, Rows};
///
/// # let halves = Rows::<f32, f32>::new([1, 1], "
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
/// #     }
/// # ");
/// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
/// let asked: Calling<Rows<f32, f32>> = batcher.call(vec![1.0]);
/// assert_eq!(asked.wait()?, [0.5]); // or `asked.await?`
/// # Ok::<(), sortie::Error>(())
/// ```
#[must_use = "nothing is asked until it is awaited"]
pub struct Calling<J: Job> {
    handle: Arc<Handle<J>>,
    call: Call,
    stage: Stage<J>,
}

enum Stage<J: Job> {
    New(J::Input),
    /// Answered before anybody waited for it.
    AtOnce(Box<Result<J::Output>>),
    Asked(Reply<J::Output>),
    /// Cut into several, with the answers that have come.
    Several(Vec<Part<J>>),
    Over,
}

enum Part<J: Job> {
    Asked(Reply<J::Output>),
    Answered(J::Output),
}

// The input is moved, never pinned.
impl<J: Job> Unpin for Calling<J> {}

impl<J: Job> Future for Calling<J> {
    type Output = Result<J::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.stage {
            Stage::New(_) => self.ask(cx),
            Stage::AtOnce(_) => match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::AtOnce(answer) => Poll::Ready(*answer),
                _ => unreachable!("it was answered at once"),
            },
            Stage::Asked(reply) => reply.poll(cx),
            Stage::Several(_) => self.poll_several(cx),
            Stage::Over => Poll::Ready(Err(Error::new(ErrorKind::Canceled, "the answer has been taken already"))),
        };
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        polled
    }
}

impl<J: Job> Calling<J> {
    pub(super) fn new(handle: Arc<Handle<J>>, input: J::Input, call: Call) -> Self {
        Self { handle, call, stage: Stage::New(input) }
    }

    /// Asks now, and leaves the answer for later: one caller can have many requests under way.
    ///
    /// ```
    /// # use sortie::{BatchConfig, Batcher, Device, Rows};
    /// # let halves = Rows::<f32, f32>::new([1, 1], "
    /// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
    /// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    /// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    /// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
    /// #     }
    /// # ");
    /// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
    /// let asked = [1.0, 2.0, 3.0].map(|x| batcher.call(vec![x]).begin());
    /// for (asked, half) in asked.into_iter().zip([0.5, 1.0, 1.5]) {
    ///     assert_eq!(asked.wait()?, [half]);
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn begin(mut self) -> Self {
        if let Stage::New(_) = self.stage {
            let polled = Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(answer) = polled {
                self.stage = Stage::AtOnce(Box::new(answer));
            }
        }
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Batcher::call_blocking`](crate::Batcher::call_blocking).
    pub fn wait(self) -> Result<J::Output> {
        pollster::block_on(self)
    }

    fn ask(&mut self, cx: &mut Context<'_>) -> Poll<Result<J::Output>> {
        let Stage::New(input) = std::mem::replace(&mut self.stage, Stage::Over) else { unreachable!("it is new") };
        let job = &self.handle.job;
        job.check(&input)?;
        if let Some(answer) = job.at_once(&input) {
            return Poll::Ready(Ok(answer));
        }
        let most = self.handle.front.config.max_batch_size.max(1);
        if job.rows(&input) <= most {
            self.stage = Stage::Asked(self.admit(input, true, cx)?);
            return Poll::Pending;
        }
        let mut parts = Vec::new();
        for part in job.split(input, most) {
            // With the first of them the request is in.
            parts.push(Part::Asked(self.admit(part, parts.is_empty(), cx)?));
        }
        if parts.is_empty() {
            return Poll::Ready(Err(Error::new(ErrorKind::Shape, "a job cut an input into nothing")));
        }
        self.stage = Stage::Several(parts);
        Poll::Pending
    }

    fn admit(&self, input: J::Input, first: bool, cx: &Context<'_>) -> Result<Reply<J::Output>> {
        let Handle { job, front, .. } = &*self.handle;
        let (key, rows) = (job.key(&input), job.rows(&input).max(1));
        let overload = if first { front.config.overload } else { Overload::Wait };
        front.admit(input, Rank { key, rows, overload }, self.call, cx.waker())
    }

    fn poll_several(&mut self, cx: &mut Context<'_>) -> Poll<Result<J::Output>> {
        let Stage::Several(parts) = &mut self.stage else { unreachable!("it was cut") };
        let mut all = true;
        for part in parts.iter_mut() {
            let Part::Asked(reply) = part else { continue };
            match reply.poll(cx) {
                Poll::Ready(answer) => *part = Part::Answered(answer?),
                Poll::Pending => all = false,
            }
        }
        if !all {
            return Poll::Pending;
        }
        let answers = parts.drain(..).filter_map(|part| match part {
            Part::Answered(answer) => Some(answer),
            Part::Asked(_) => None,
        });
        Poll::Ready(Ok(self.handle.job.join(answers.collect())))
    }
}

impl<J: Job> fmt::Debug for Calling<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").field("call", &self.call).finish_non_exhaustive()
    }
}
