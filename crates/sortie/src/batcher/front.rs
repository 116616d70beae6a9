//! What callers and the threads of a batcher share: who waits, who flies, and who sleeps.
//!
//! Callers come in by [`Front::admit`] and wait at a desk. The thread of each device asks [`Front::next`] what to do, and sleeps in there when that is
//! nothing. What flies when is the queue's and the roster's to say; here is what they need locks and a clock for.
//!
//! Invariants: nothing foreign (a waker, an input's drop, a job) runs under the lock; whoever changes what a sleeping thread has based its sleep on wakes
//! it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use super::{
    config::{BatchConfig, Overload},
    linger::Awaited,
    metrics::{BatchMetrics, Figures},
    queue::{Decision, Priority, Queue, Reason, Taken, Taker, Waiting},
    reply::{Address, Desk, Reply},
    roster::{Roster, Share},
    sync::{Clock, Condvar, Mutex, yield_now},
};
use crate::error::{Error, ErrorKind, Result};

/// Whoever waits for longer waits for ever; and moments can still be added up.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[derive(Debug)]
pub(super) struct Front<I, O> {
    pub(super) config: BatchConfig,
    pub(super) figures: Figures,
    clock: Clock,
    state: Mutex<State<I, O>>,
    /// How many callers have gone without an answer.
    gone: Arc<AtomicUsize>,
    /// Rows that wait, to be looked at without the lock.
    waiting: AtomicUsize,
    /// One for the thread of each device.
    stirred: Vec<Condvar>,
}

#[derive(Debug)]
struct State<I, O> {
    queue: Queue<Request<I, O>>,
    roster: Roster,
    desk: Arc<Desk<O>>,
    /// How many had gone without an answer when those were last looked for.
    swept: usize,
    /// Why no more requests are let in.
    closed: Option<Error>,
}

/// A request that has been taken in.
#[derive(Debug)]
pub(super) struct Request<I, O> {
    pub(super) input: I,
    pub(super) address: Address<O>,
}

/// How a request is to be treated.
///
/// ```
/// use std::time::{Duration, Instant};
/// use sortie::{Call, Priority};
///
/// let call = Call { deadline: Some(Instant::now() + Duration::from_millis(50)), ..Call::default() };
/// assert_eq!(call.priority, Priority::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// From when on nobody wants the answer: a request that has not flown by then fails with [`Expired`](ErrorKind::Expired).
    pub deadline: Option<Instant>,
    /// Before whom it goes.
    pub priority: Priority,
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    pub(super) key: u64,
    pub(super) rows: usize,
    /// What becomes of it when there is no room.
    pub(super) overload: Overload,
}

/// What the thread of a device is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing for the device; but there are some who are late or have gone, or to whom waking is owed.
    Settle,
    /// The oldest flight is over.
    Land,
    /// A batch was taken, for this reason, of those rows that it could have.
    Fly(Reason, usize),
    /// The part of a failed batch is to be run again.
    Retry,
    End,
}

/// A part of a failed batch that is to be run again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) rows: usize,
    /// It goes before what waits in the queue. It does every other time, so that neither holds up the other.
    pub(super) first: bool,
}

impl<I, O> Front<I, O> {
    /// For so many devices.
    pub(super) fn new(config: BatchConfig, devices: usize, figures: Figures) -> Self {
        let config = BatchConfig { max_wait: config.max_wait.min(LONGEST), ..config };
        let (queue, roster) = (Queue::new(&config), Roster::new(config, devices));
        let gone = Arc::new(AtomicUsize::new(0));
        let mut state = State { queue, roster, desk: Desk::new(gone.clone()), swept: 0, closed: None };
        state.limit();
        let stirred = (0..devices).map(|_| Condvar::new()).collect();
        Self {
            config,
            figures,
            clock: Clock::start(),
            state: Mutex::new(state),
            gone,
            waiting: AtomicUsize::new(0),
            stirred,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Takes a request in. The caller is woken when its answer is there.
    pub(super) fn admit(&self, input: I, rank: Rank, call: Call, waker: &Waker) -> Result<Reply<O>> {
        let Rank { key, rows, overload } = rank;
        let deadline = call.deadline.map(|deadline| self.clock.at(deadline));
        let waker = waker.clone();
        let now = self.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.figures.expired.add(1);
            return Err(expired());
        }
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if overload == Overload::Reject && !state.has_room(now, rows) {
            // Perhaps some do not want theirs any more. They are looked for only if somebody has gone since.
            let left = self.gone.load(Ordering::Relaxed);
            if std::mem::replace(&mut state.swept, left) != left {
                state.queue.sweep(|request| request.address.is_gone(), &mut gone);
            }
            if !state.has_room(now, rows) {
                let full = !state.queue.has_room(rows);
                drop(state);
                self.figures.canceled.add(gone.len());
                self.figures.rejected.add(1);
                return Err(if full { overloaded("the queue of the batcher is full") } else { too_late() });
            }
        }
        let State { desk, queue, .. } = &mut *state;
        let (reply, address) = Desk::place(desk, waker);
        let request = Request { input, address };
        queue.push(key, call.priority, Waiting { request, rows, arrived: now, deadline });
        self.waiting.store(state.queue.rows(), Ordering::Relaxed);
        let woken = state.rouse(now);
        drop(state);
        self.notify(woken);
        self.figures.requests.add(1);
        self.figures.canceled.add(gone.len());
        Ok(reply)
    }

    fn notify(&self, who: Option<usize>) {
        if let Some(who) = who {
            self.stirred[who].notify_one();
        }
    }

    /// What the thread of a device is to do next; it sleeps until there is something, though not if it still owes waking, except for callers to come back:
    /// they wake each other. `landed` says whether its oldest flight is over, `retry` what it has to run again.
    pub(super) fn next(
        &self,
        who: usize,
        taken: &mut Taken<Request<I, O>>,
        owes: bool,
        retry: Option<Retry>,
        landed: impl Fn() -> bool,
    ) -> Step {
        let mut state = self.state.lock();
        loop {
            let now = self.now();
            state.roster.wakes(who, now);
            state.queue.expire(now, &mut taken.late);
            if !taken.late.is_empty() {
                return Step::Settle;
            }
            let (taker, decision) = state.decide(who, now);
            let State { queue, roster, closed, .. } = &mut *state;
            if let Some(Retry { rows, first }) = retry
                && roster.can_start(who)
                && (first || !matches!(decision, Decision::Fly(..)))
            {
                roster.started(who, rows, now);
                return Step::Retry;
            }
            let until = match decision {
                Decision::Fly(key, reason) => {
                    let waiting = queue.rows();
                    queue.take(taken, key, now, &taker, |request| request.address.is_gone());
                    self.waiting.store(queue.rows(), Ordering::Relaxed);
                    if taken.batch.is_empty() {
                        return Step::Settle;
                    }
                    roster.left(who, taken.rows, waiting, now);
                    // There may be enough for another one, too.
                    let woken = state.rouse(now);
                    drop(state);
                    self.notify(woken);
                    return Step::Fly(reason, taker.size);
                }
                Decision::Until(until) => until,
            };
            // After what can fly, so that the device has something to do while answers are given out.
            if landed() {
                return Step::Land;
            }
            if closed.is_some() && queue.rows() == 0 && roster.flying(who) == 0 && retry.is_none() {
                return Step::End;
            }
            if let Some(awaited) = taker.waits {
                drop(state);
                self.await_callers(awaited);
                state = self.state.lock();
                continue;
            }
            if owes {
                return Step::Settle;
            }
            roster.sleeps(who, until);
            // What it leaves to others they may not know of.
            if taker.left > 0 {
                let woken = state.rouse(now).filter(|other| *other != who);
                self.notify(woken);
                state.roster.sleeps(who, until);
            }
            match until {
                Some(until) => {
                    self.stirred[who].wait_for(&mut state, until.saturating_sub(now));
                }
                None => self.stirred[who].wait(&mut state),
            }
        }
    }

    /// Lets callers run until so many rows wait, or the time is up. Whoever sleeps takes longer to wake than they take to come.
    fn await_callers(&self, awaited: Awaited) {
        while self.waiting.load(Ordering::Relaxed) < awaited.rows && self.now() < awaited.until {
            yield_now();
        }
    }

    /// The oldest flight of a device is over; `well` says how it went.
    pub(super) fn landed(&self, who: usize, well: bool) {
        let mut state = self.state.lock();
        let now = self.now();
        let waiting = state.queue.rows();
        if well {
            state.roster.landed(who, waiting, now);
        } else {
            state.roster.failed(who, now);
        }
        state.limit();
    }

    /// What was to be the youngest flight of a device did not fly.
    pub(super) fn stayed(&self, who: usize) {
        self.state.lock().roster.stayed(who);
    }

    /// A device was lost: others take what it would have.
    pub(super) fn lost(&self, who: usize) {
        let mut state = self.state.lock();
        state.roster.lost(who);
        let woken = state.rouse(self.now());
        drop(state);
        self.notify(woken);
    }

    /// A device that was lost answers again.
    pub(super) fn returned(&self, who: usize) {
        self.state.lock().roster.returned(who);
    }

    /// A device that was lost will not come back. With the last one the batcher is over: nobody will fly what waits.
    pub(super) fn retired(&self, why: &Error) -> Vec<Request<I, O>> {
        let mut stranded = Vec::new();
        let mut state = self.state.lock();
        if state.roster.is_empty() {
            state.closed.get_or_insert_with(|| why.clone());
            state.queue.sweep(|_| true, &mut stranded);
        }
        stranded
    }

    /// Wakes the thread of a device, which has a reason to look.
    pub(super) fn ring(&self, who: usize) {
        // Whoever looks has the lock until it sleeps.
        drop(self.state.lock());
        self.stirred[who].notify_one();
    }

    /// Lets no more requests in. The first reason stays.
    pub(super) fn close(&self, why: Error) {
        self.state.lock().closed.get_or_insert(why);
        for thread in &self.stirred {
            thread.notify_one();
        }
    }

    /// What it has done, and how full it is.
    pub(super) fn metrics(&self) -> BatchMetrics {
        let state = self.state.lock();
        let (rows, outside, size) = (state.queue.rows(), state.queue.outside(), state.roster.batch_size());
        drop(state);
        self.figures.snapshot(rows, outside, size)
    }

    /// What each device has done.
    pub(super) fn shares(&self) -> Vec<Share> {
        self.state.lock().roster.shares()
    }

    /// Rows that wait, and those of a full batch.
    pub(super) fn waiting(&self) -> [usize; 2] {
        let state = self.state.lock();
        [state.queue.rows(), state.roster.batch_size()]
    }
}

impl<I, O> State<I, O> {
    /// What the tuning allows.
    fn limit(&mut self) {
        if let Some((capacity, max_wait)) = self.roster.limits() {
            self.queue.limit(capacity, max_wait);
        }
    }

    /// Whether a request of `rows` rows is let in, where requests without room are rejected.
    fn has_room(&self, now: Duration, rows: usize) -> bool {
        self.queue.has_room(rows) && self.roster.is_in_time(now, self.queue.rows(), rows)
    }

    /// What a device is to do, or when it is to look again.
    fn decide(&self, who: usize, now: Duration) -> (Taker, Decision) {
        let waiting = self.queue.rows();
        let taker = self.roster.taker(who, now, waiting);
        let decision = match self.queue.decide(now, &taker, self.closed.is_some()) {
            Decision::Until(until) if waiting > 0 => {
                Decision::Until(until.into_iter().chain(self.roster.look_again(&taker, now)).min())
            }
            decision => decision,
        };
        (taker, decision)
    }

    /// Whose sleep is not right any more: somebody who could take a batch now, else somebody who would have to look earlier.
    fn rouse(&mut self, now: Duration) -> Option<usize> {
        let mut earlier = None;
        let flies = |(who, until): (usize, Option<Duration>)| match self.decide(who, now).1 {
            Decision::Fly(..) => Some(who),
            Decision::Until(look) => {
                if look.is_some_and(|look| until.is_none_or(|until| look < until)) {
                    earlier.get_or_insert(who);
                }
                None
            }
        };
        let who = self.roster.sleepers().find_map(flies).or(earlier)?;
        self.roster.wakes(who, now);
        Some(who)
    }
}

pub(super) fn too_late() -> Error {
    overloaded("the batcher would answer later than its target")
}

fn overloaded(message: &str) -> Error {
    Error::new(ErrorKind::Overloaded, message)
}

pub(super) fn expired() -> Error {
    Error::new(ErrorKind::Expired, "the deadline passed before the request could fly")
}
