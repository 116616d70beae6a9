//! Requests from anywhere become batches.
//!
//! Callers put their requests into a [`Queue`] and wait for an answer at a [`Desk`]; one thread for each batcher takes batches out of the queue, has the
//! [`Job`] record them, and answers when they have landed. What flies when is the queue's to say; the thread only does it.
//!
//! Invariants: every request is answered, once; whatever happens to a batch happens to its own requests alone. Nothing of a job's, and no waker, runs
//! under the lock.

mod config;
mod flights;
mod job;
mod metrics;
mod queue;
mod reply;
mod rows;

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

pub use self::{
    config::{BatchConfig, Overload},
    job::{Answers, Job},
    metrics::{BatchMetrics, Times},
    queue::Priority,
    rows::Rows,
};
use self::{
    flights::Flights,
    metrics::Figures,
    queue::{Queue, Waiting},
    reply::{Address, Desk, Reply},
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
};

/// Puts the requests of many callers together and runs them as batches. Cheap to clone, usable from any thread and with any executor.
///
/// [`Job`] has an example. A batcher ends when its last handle is gone, or when it is told to: what has been let in is still answered.
pub struct Batcher<J: Job> {
    handle: Arc<Handle<J>>,
}

/// Closes the batcher when the last of its clones goes.
struct Handle<J: Job> {
    front: Arc<Front<J>>,
}

/// What callers and the batcher's thread share.
struct Front<J: Job> {
    job: J,
    config: BatchConfig,
    start: Instant,
    state: Mutex<State<J>>,
    /// For the batcher's thread: something arrived, landed, or the batcher was closed.
    stirred: Condvar,
    figures: Figures,
}

struct State<J: Job> {
    queue: Queue<Request<J>>,
    desk: Arc<Desk<J::Output>>,
    /// Who waits for room, in order.
    room: VecDeque<Queuer>,
    /// Numbers for them.
    next: u64,
    /// Why no more requests are let in.
    closed: Option<Error>,
    /// The thread sleeps.
    asleep: bool,
}

/// A request that has been let in.
struct Request<J: Job> {
    input: J::Input,
    address: Address<J::Output>,
}

/// Somebody who waits for room.
struct Queuer {
    number: u64,
    waker: Waker,
    deadline: Option<Duration>,
}

/// How a request is to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// From when on nobody wants the answer: a request that has not flown by then fails with [`Expired`](ErrorKind::Expired).
    pub deadline: Option<Instant>,
    /// Before whom it goes.
    pub priority: Priority,
}

impl<J: Job> Batcher<J> {
    /// Starts one on a device.
    ///
    /// # Errors
    /// What [`Job::prepare`] fails with; [`Internal`](ErrorKind::Internal) when the system starts no more threads.
    pub fn new(device: &Device, job: J, config: BatchConfig) -> Result<Self> {
        let ready = job.prepare(device)?;
        let front = Arc::new(Front {
            job,
            config,
            start: Instant::now(),
            state: Mutex::new(State {
                queue: Queue::new(config),
                desk: Desk::new(),
                room: VecDeque::new(),
                next: 0,
                closed: None,
                asleep: false,
            }),
            stirred: Condvar::new(),
            figures: Figures::new(),
        });
        let flights = Flights::new(front.clone(), device.clone(), ready);
        thread::Builder::new()
            .name("sortie-batcher".into())
            .spawn(move || flights.run())
            .map_err(|error| Error::internal("the thread sortie-batcher did not start").caused_by(error))?;
        Ok(Self { handle: Arc::new(Handle { front }) })
    }

    /// Asks for an answer. Nothing happens until it is polled; dropped before its batch flies, it takes no part in it.
    pub fn call(&self, input: J::Input) -> Calling<J> {
        self.call_with(input, Call::default())
    }

    /// As [`Batcher::call`], with a deadline or a priority.
    pub fn call_with(&self, input: J::Input, call: Call) -> Calling<J> {
        Calling { handle: self.handle.clone(), call, stage: Stage::New(input) }
    }

    /// Asks for an answer and waits for it.
    ///
    /// # Errors
    /// [`Overloaded`](ErrorKind::Overloaded) when there is no room and the batcher does not wait for it, [`Canceled`](ErrorKind::Canceled) when it has been
    /// closed, [`JobPanicked`](ErrorKind::JobPanicked), and whatever the job or the device fails with.
    pub fn call_blocking(&self, input: J::Input) -> Result<J::Output> {
        pollster::block_on(self.call(input))
    }

    /// Lets no more requests in. Those that are in are answered.
    pub fn close(&self) {
        self.handle.front.close(Error::new(ErrorKind::Canceled, "the batcher has been closed"));
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        let front = &self.handle.front;
        let rows = front.state.lock().queue.rows();
        front.figures.snapshot(rows, front.config.max_batch_size)
    }

    /// Its limits.
    #[must_use]
    pub fn config(&self) -> &BatchConfig {
        &self.handle.front.config
    }
}

impl<J: Job> Clone for Batcher<J> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<J: Job> fmt::Debug for Batcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("config", &self.handle.front.config).finish_non_exhaustive()
    }
}

impl<J: Job> Drop for Handle<J> {
    fn drop(&mut self) {
        self.front.close(Error::new(ErrorKind::Canceled, "the batcher is gone"));
    }
}

impl<J: Job> Front<J> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The first reason stays.
    fn close(&self, why: Error) {
        let mut state = self.state.lock();
        state.closed.get_or_insert(why);
        let room = std::mem::take(&mut state.room);
        drop(state);
        self.stirred.notify_all();
        room.into_iter().for_each(|queuer| queuer.waker.wake());
    }

    /// Lets a request in; gives it back when it has to wait for room.
    fn admit(&self, input: J::Input, call: Call, number: &mut Option<u64>, waker: &Waker) -> Result<Admitted<J>> {
        let (key, rows) = (self.job.key(&input), self.job.rows(&input).max(1));
        let deadline = call.deadline.map(|deadline| deadline.saturating_duration_since(self.start));
        let mut state = self.state.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        let now = self.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            state.leave_room(*number);
            self.figures.counts.expired.fetch_add(1, Ordering::Relaxed);
            return Err(expired());
        }
        let first = state.room.front().is_none_or(|queuer| Some(queuer.number) == *number);
        if !first || !state.queue.has_room(rows) {
            if self.config.overload == Overload::Reject {
                self.figures.counts.rejected.fetch_add(1, Ordering::Relaxed);
                return Err(Error::new(ErrorKind::Overloaded, "the queue of the batcher is full"));
            }
            state.wait_for_room(number, waker, deadline);
            return Ok(Admitted::NotYet(input));
        }
        state.leave_room(*number);
        let State { desk, queue, .. } = &mut *state;
        let (reply, address) = Desk::place(desk);
        let request = Request { input, address };
        queue.push(key, call.priority, Waiting { request, rows, arrived: now, deadline });
        let next = state.room.front().map(|queuer| queuer.waker.clone());
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        self.figures.counts.requests.fetch_add(1, Ordering::Relaxed);
        if asleep {
            self.stirred.notify_one();
        }
        // There may be room for one more.
        if let Some(next) = next {
            next.wake();
        }
        Ok(Admitted::Now(reply))
    }
}

impl<J: Job> State<J> {
    fn wait_for_room(&mut self, number: &mut Option<u64>, waker: &Waker, deadline: Option<Duration>) {
        if let Some(queuer) = self.room.iter_mut().find(|queuer| Some(queuer.number) == *number) {
            queuer.waker.clone_from(waker);
            return;
        }
        self.next += 1;
        *number = Some(self.next);
        self.room.push_back(Queuer { number: self.next, waker: waker.clone(), deadline });
    }

    fn leave_room(&mut self, number: Option<u64>) {
        if number.is_some() {
            self.room.retain(|queuer| Some(queuer.number) != number);
        }
    }
}

fn expired() -> Error {
    Error::new(ErrorKind::Expired, "the deadline passed before the request could fly")
}

enum Admitted<J: Job> {
    Now(Reply<J::Output>),
    NotYet(J::Input),
}

/// An answer to come: a future.
#[must_use = "nothing is asked until it is awaited"]
pub struct Calling<J: Job> {
    handle: Arc<Handle<J>>,
    call: Call,
    stage: Stage<J>,
}

enum Stage<J: Job> {
    New(J::Input),
    /// Waits for room, with this number.
    Outside(J::Input, Option<u64>),
    Inside(Reply<J::Output>),
    /// Cut into several, with the answers that have come.
    Several(Vec<(Calling<J>, Option<J::Output>)>),
    Over,
}

// The input is moved, never pinned.
impl<J: Job> Unpin for Calling<J> {}

impl<J: Job> Future for Calling<J> {
    type Output = Result<J::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let front = self.handle.front.clone();
        let (input, mut number) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New(input) => {
                if let Some(answer) = front.job.at_once(&input) {
                    return Poll::Ready(Ok(answer));
                }
                if let Err(error) = front.job.check(&input) {
                    return Poll::Ready(Err(error));
                }
                let most = front.config.max_batch_size.max(1);
                if front.job.rows(&input) > most {
                    let mut parts = front.job.split(input, most);
                    match parts.pop() {
                        Some(part) if parts.is_empty() => (part, None),
                        last => {
                            parts.extend(last);
                            let stage = |input| Stage::Outside(input, None);
                            let part =
                                |input| Self { handle: self.handle.clone(), call: self.call, stage: stage(input) };
                            self.stage = Stage::Several(parts.into_iter().map(|input| (part(input), None)).collect());
                            return self.poll_several(cx);
                        }
                    }
                } else {
                    (input, None)
                }
            }
            Stage::Outside(input, number) => (input, number),
            Stage::Inside(mut reply) => {
                let polled = reply.poll(cx);
                if polled.is_pending() {
                    self.stage = Stage::Inside(reply);
                }
                return polled;
            }
            Stage::Several(parts) => {
                self.stage = Stage::Several(parts);
                return self.poll_several(cx);
            }
            Stage::Over => {
                return Poll::Ready(Err(Error::new(ErrorKind::Canceled, "the answer has been taken already")));
            }
        };
        match front.admit(input, self.call, &mut number, cx.waker()) {
            Ok(Admitted::Now(mut reply)) => {
                let polled = reply.poll(cx);
                if polled.is_pending() {
                    self.stage = Stage::Inside(reply);
                }
                polled
            }
            Ok(Admitted::NotYet(input)) => {
                self.stage = Stage::Outside(input, number);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<J: Job> Calling<J> {
    fn poll_several(&mut self, cx: &mut Context<'_>) -> Poll<Result<J::Output>> {
        let Stage::Several(parts) = &mut self.stage else { unreachable!("it was cut") };
        for (part, answer) in parts.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match Pin::new(part).poll(cx) {
                Poll::Ready(Ok(own)) => *answer = Some(own),
                // The others take no part any more.
                Poll::Ready(Err(error)) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {}
            }
        }
        if parts.iter().any(|(_, answer)| answer.is_none()) {
            return Poll::Pending;
        }
        let answers = parts.drain(..).filter_map(|(_, answer)| answer).collect();
        self.stage = Stage::Over;
        Poll::Ready(Ok(self.handle.front.job.join(answers)))
    }
}

impl<J: Job> Drop for Calling<J> {
    fn drop(&mut self) {
        let Stage::Outside(_, number) = &self.stage else { return };
        let mut state = self.handle.front.state.lock();
        state.leave_room(*number);
        // It may have been woken in the place of the next one.
        let next = state.room.front().map(|queuer| queuer.waker.clone());
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<J: Job> fmt::Debug for Calling<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").field("call", &self.call).finish_non_exhaustive()
    }
}
