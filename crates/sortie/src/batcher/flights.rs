//! The batcher's thread: takes batches out of the queue, flies them, and answers.

use std::{
    collections::VecDeque,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use super::{
    Answers, Front, Job, Request, expired,
    queue::{Decision, Reason, Waiting},
    reply::Address,
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    submit::Ticket,
};

/// Times that the thread lets others run when answers have gone out: callers that ask again at once are then part of the next batch. Without, they
/// split into two groups that take turns, with half of the rows each.
const LINGER: usize = 2;

/// The flights of a batcher, and what they need.
pub(super) struct Flights<J: Job> {
    front: Arc<Front<J>>,
    device: Device,
    ready: J::Ready,
    under_way: VecDeque<Flight<J::Output>>,
    /// Rings when a flight has landed.
    bell: Waker,
}

/// A batch under way.
struct Flight<O> {
    ticket: Ticket,
    answers: Answers<O>,
    addresses: Vec<Address<O>>,
    left: Instant,
}

/// What is to be done, outside the lock.
enum Step<J: Job> {
    Expire(Vec<Request<J>>),
    Land,
    Fly(Vec<Waiting<Request<J>>>, Reason, Vec<Request<J>>, Option<Waker>),
    End,
}

/// Wakes the batcher's thread.
struct Bell<J: Job>(Weak<Front<J>>);

impl<J: Job> Wake for Bell<J> {
    fn wake(self: Arc<Self>) {
        if let Some(front) = self.0.upgrade() {
            // Whoever looks whether something has landed has the lock until it sleeps.
            drop(front.state.lock());
            front.stirred.notify_one();
        }
    }
}

impl<J: Job> Flights<J> {
    pub(super) fn new(front: Arc<Front<J>>, device: Device, ready: J::Ready) -> Self {
        let bell = Waker::from(Arc::new(Bell(Arc::downgrade(&front))));
        Self { front, device, ready, under_way: VecDeque::new(), bell }
    }

    /// Until the batcher is closed and all have their answers.
    pub(super) fn run(mut self) {
        loop {
            match self.next() {
                Step::Expire(requests) => self.expire(requests),
                Step::Land => {
                    if let Some(flight) = self.under_way.pop_front() {
                        self.land(flight);
                    }
                }
                Step::Fly(taken, reason, late, next) => {
                    if let Some(next) = next {
                        next.wake();
                    }
                    self.expire(late);
                    self.fly(taken, reason);
                }
                Step::End => return,
            }
        }
    }

    /// Sleeps until there is something to do.
    fn next(&self) -> Step<J> {
        let front = &*self.front;
        let mut state = front.state.lock();
        loop {
            let now = front.now();
            let mut late = Vec::new();
            state.queue.expire(now, &mut late);
            if !late.is_empty() {
                return Step::Expire(late);
            }
            if self.under_way.front().is_some_and(|flight| flight.ticket.is_ready()) {
                return Step::Land;
            }
            let closing = state.closed.is_some();
            let until = match state.queue.decide(now, self.under_way.len(), closing) {
                Decision::Fly(key, reason) => {
                    let taken = state.queue.take(key, now, &mut late);
                    let next = state.room.front().map(|queuer| queuer.waker.clone());
                    return Step::Fly(taken, reason, late, next);
                }
                Decision::Until(until) => until,
            };
            if closing && self.under_way.is_empty() {
                return Step::End;
            }
            // Those whose time is up look themselves.
            let over = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
            let woken: Vec<Waker> =
                state.room.iter().filter(|queuer| over(queuer.deadline)).map(|queuer| queuer.waker.clone()).collect();
            if !woken.is_empty() {
                drop(state);
                woken.into_iter().for_each(Waker::wake);
                thread::yield_now();
                state = front.state.lock();
                continue;
            }
            let outside = state.room.iter().filter_map(|queuer| queuer.deadline).min();
            state.asleep = true;
            match until.into_iter().chain(outside).min() {
                Some(until) => drop(front.stirred.wait_for(&mut state, until.saturating_sub(now))),
                None => front.stirred.wait(&mut state),
            }
            state.asleep = false;
        }
    }

    fn expire(&self, requests: Vec<Request<J>>) {
        self.front.figures.counts.expired.fetch_add(requests.len() as u64, Ordering::Relaxed);
        Address::answer_all(requests.into_iter().map(|request| (request.address, Err(expired()))));
    }

    fn fly(&mut self, taken: Vec<Waiting<Request<J>>>, reason: Reason) {
        let front = self.front.clone();
        let (mut inputs, mut addresses) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        let (mut rows, mut waits) = (0, Vec::with_capacity(taken.len()));
        let now = front.now();
        for Waiting { request, rows: own, arrived, .. } in taken {
            // Nobody wants the answer of a caller that has gone.
            if request.address.is_gone() {
                front.figures.counts.canceled.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            rows += own;
            waits.push(now.saturating_sub(arrived));
            inputs.push(request.input);
            addresses.push(request.address);
        }
        if inputs.is_empty() {
            return;
        }
        front.figures.left(reason, rows, waits.into_iter());
        let left = Instant::now();
        match self.submit(inputs) {
            Ok((mut ticket, answers)) => {
                // It rings when it has landed; if it has already, nobody sleeps before having looked.
                drop(Pin::new(&mut ticket).poll(&mut Context::from_waker(&self.bell)));
                self.under_way.push_back(Flight { ticket, answers, addresses, left });
            }
            Err(error) => self.fail(addresses, &error),
        }
    }

    fn submit(&mut self, inputs: Vec<J::Input>) -> Result<(Ticket, Answers<J::Output>)> {
        let mut batch = self.device.batch();
        let (job, ready) = (&self.front.job, &mut self.ready);
        let recorded = catch_unwind(AssertUnwindSafe(|| job.record(ready, &mut batch, inputs)));
        let answers = recorded.unwrap_or_else(|_| Err(panicked("recording")))?;
        Ok((batch.submit_async()?, answers))
    }

    fn land(&mut self, flight: Flight<J::Output>) {
        let Flight { ticket, answers, addresses, left } = flight;
        let results = ticket.wait().and_then(|()| {
            let results = catch_unwind(AssertUnwindSafe(answers));
            let results = results.unwrap_or_else(|_| Err(panicked("giving answers")))?;
            if results.len() != addresses.len() {
                let message = format!("a job gave {} answers to {} inputs", results.len(), addresses.len());
                return Err(Error::new(ErrorKind::Shape, message));
            }
            Ok(results)
        });
        self.front.figures.served(left.elapsed());
        match results {
            Ok(results) => Address::answer_all(addresses.into_iter().zip(results)),
            Err(error) => self.fail(addresses, &error),
        }
        if self.front.config.greedy {
            (0..LINGER).for_each(|_| thread::yield_now());
        }
    }

    /// A batch has failed, and with it the requests in it.
    fn fail(&mut self, addresses: Vec<Address<J::Output>>, error: &Error) {
        self.front.figures.counts.failed.fetch_add(1, Ordering::Relaxed);
        Address::answer_all(addresses.into_iter().map(|address| (address, Err(error.clone()))));
        if *error.kind() == ErrorKind::DeviceLost {
            self.reopen();
        }
    }

    /// Starts afresh on the device that was lost; should that fail, the batcher is over.
    fn reopen(&mut self) {
        // What else was under way has been lost with it.
        for flight in std::mem::take(&mut self.under_way) {
            let error =
                flight.ticket.wait().err().unwrap_or_else(|| Error::new(ErrorKind::DeviceLost, "the device was lost"));
            self.front.figures.counts.failed.fetch_add(1, Ordering::Relaxed);
            Address::answer_all(flight.addresses.into_iter().map(|address| (address, Err(error.clone()))));
        }
        let prepared = self.device.reopen().and_then(|device| {
            let ready = catch_unwind(AssertUnwindSafe(|| self.front.job.prepare(&device)));
            Ok((ready.unwrap_or_else(|_| Err(panicked("preparing")))?, device))
        });
        match prepared {
            Ok((ready, device)) => {
                self.front.figures.counts.reopened.fetch_add(1, Ordering::Relaxed);
                (self.ready, self.device) = (ready, device);
            }
            Err(error) => self.front.close(error),
        }
    }
}

fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::JobPanicked, format!("a job panicked while {what}"))
}
