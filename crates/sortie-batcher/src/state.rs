//! State shared by callers and workers: the queue, the scheduler, and the sleeping workers.
//!
//! [`BatcherState::admit`] admits callers, who wait for their [`Receiver`]. Each worker calls [`BatcherState::next`]
//! for its next action, and sleeps there if there is none. The queue and the scheduler decide which requests start
//! when; this module adds locks and a clock.
//!
//! A worker that sleeps can be [lent](lending) to a caller.
//!
//! Invariants: no foreign code (a waker, an input's drop, a job, a job's future) runs under the lock; every change that
//! concerns a sleeping worker wakes it.

mod lending;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use crate::{
    caller::{CallerKind, CallerTask},
    clock::Clock,
    config::{BatchConfig, Overload},
    error::{Error, ErrorKind},
    job::Job,
    linger::LingerTarget,
    lone::Lone,
    metrics::{BatchMetrics, LiveMetrics, QueueState},
    queue::{Capacity, Decision, FlushReason, Priority, QueuedRequest, RequestQueue, TakenBatch},
    reply::{Receiver, ReplySlab},
    requests::Request,
    scheduler::{Scheduler, WorkerMetrics},
    sync::{Condvar, Mutex, yield_now},
};
use lending::{LONGEST, Lending, Wake};

/// A longer `max_wait` is effectively infinite; this keeps sums of times from overflowing.
const MAX_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The answer to callers of a job.
pub(crate) type ReplyOf<J> = Result<<J as Job>::Output, <J as Job>::Error>;
/// State shared by callers and workers of a job.
pub(crate) type StateOf<J> = BatcherState<<J as Job>::Input, ReplyOf<J>>;

/// Creates the answer of requests that are no longer admitted.
pub(crate) type Refusal<R> = Arc<dyn Fn() -> R + Send + Sync>;

pub(crate) struct BatcherState<I, R> {
    pub(crate) config: BatchConfig,
    pub(crate) metrics: LiveMetrics,
    clock: Clock,
    shared: Mutex<Shared<I, R>>,
    refuse: fn(Error) -> R,
    /// Number of callers dropped without an answer.
    gone: Arc<AtomicUsize>,
    /// Queued rows, readable without the lock.
    queued: AtomicUsize,
    /// One for each worker.
    worker_signals: Vec<Condvar>,
}

struct Shared<I, R> {
    queue: RequestQueue<Request<I, R>>,
    scheduler: Scheduler,
    slab: Arc<ReplySlab<R>>,
    /// The value of `gone` when their requests were last removed.
    swept: usize,
    /// Why no more requests are admitted.
    closed: Option<Refusal<R>>,
    lone: Lone,
    /// One for each worker.
    lending: Vec<Lending>,
}

/// Parameters of an admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) key: u64,
    pub(crate) rows: usize,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Instant>,
    /// What happens to it if the queue is full.
    pub(crate) overload: Overload,
    pub(crate) caller: CallerKind,
}

/// The action of a [`Worker`](crate::Worker) in a [step](crate::Worker::step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Woke answered callers, or answered expired requests.
    Settle,
    /// Polled batches that may have finished, and answered the oldest if it has.
    Poll,
    /// Started a batch.
    Start {
        /// Why it started.
        reason: FlushReason,
        /// Rows of a full batch.
        capacity: usize,
    },
    /// Started a part of a failed batch again.
    Retry,
    /// Recovered from a failure.
    Recover,
    /// Nothing: there is nothing to do before this time has passed, unless a request arrives or a batch finishes. Only
    /// returned by steps that do not wait.
    Wait(Option<Duration>),
    /// Nothing: the batcher is closed and all its requests are answered, or the worker has failed permanently.
    End,
}

/// The worker's own pending work, besides the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// A part of a failed batch to run again.
    pub(crate) retry: Option<Retry>,
    /// Whether callers must still be woken.
    pub(crate) unsettled: bool,
    /// Whether batches are in flight.
    pub(crate) busy: bool,
    /// Whether to sleep until there is something to do.
    pub(crate) wait: bool,
}

/// A part of a failed batch to run again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) rows: usize,
    /// Whether it goes before the queue. They alternate, so that neither blocks the other.
    pub(crate) first: bool,
}

impl<I, R: 'static> BatcherState<I, R> {
    /// State for this number of workers. `refuse` turns an error of the batcher into an answer.
    pub(crate) fn new(config: BatchConfig, workers: usize, metrics: LiveMetrics, refuse: fn(Error) -> R) -> Self {
        let config = config.with_max_wait(config.max_wait.min(MAX_WAIT));
        let (queue, scheduler) = (RequestQueue::new(&config), Scheduler::new(config, workers));
        let gone = Arc::new(AtomicUsize::new(0));
        let slab = ReplySlab::new(gone.clone(), refuse);
        let mut shared = Shared {
            queue,
            scheduler,
            slab,
            swept: 0,
            closed: None,
            lone: Lone::default(),
            lending: (0..workers).map(|_| Lending::default()).collect(),
        };
        shared.update_limits();
        Self {
            config,
            metrics,
            clock: Clock::start(),
            shared: Mutex::new(shared),
            refuse,
            gone,
            queued: AtomicUsize::new(0),
            worker_signals: (0..workers).map(|_| Condvar::new()).collect(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Admits a request. The caller is woken when it is answered. Also returns what the caller must do.
    ///
    /// # Errors
    /// The answer of a request that is not admitted.
    pub(crate) fn admit(&self, input: I, admission: Admission, waker: &Waker) -> Result<(Receiver<R>, CallerTask), R> {
        let Admission { key, rows, priority, deadline, overload, caller } = admission;
        let deadline = deadline.map(|deadline| self.clock.at(deadline));
        let waker = waker.clone();
        let now = self.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.metrics.expired.add(1);
            return Err((self.refuse)(expired()));
        }
        let mut gone = Vec::new();
        let mut shared = self.shared.lock();
        if let Some(refusal) = shared.closed.clone() {
            drop(shared);
            return Err(refusal());
        }
        if overload == Overload::Reject && !shared.has_room(now, rows) {
            // Removes the requests of dropped callers, if there are new ones.
            let left = self.gone.load(Ordering::Relaxed);
            if std::mem::replace(&mut shared.swept, left) != left {
                shared.queue.sweep(|request| request.sender.is_gone(), &mut gone);
            }
            if !shared.has_room(now, rows) {
                let full = !shared.queue.has_room(rows);
                drop(shared);
                self.metrics.canceled.add(gone.len());
                self.metrics.rejected.add(1);
                return Err((self.refuse)(if full { queue_full() } else { too_late() }));
            }
        }
        let Shared { slab, queue, scheduler, .. } = &mut *shared;
        let idle = queue.rows() == 0 && scheduler.is_idle();
        let (receiver, sender) = ReplySlab::insert(slab, waker);
        let request = Request { input, sender };
        queue.push(key, priority, QueuedRequest { request, rows, arrived: now, deadline });
        self.queued.store(queue.rows(), Ordering::Relaxed);
        let (task, woken) = shared.task_of(caller, idle, now);
        drop(shared);
        self.notify(woken);
        self.metrics.requests.add(1);
        self.metrics.canceled.add(gone.len());
        Ok((receiver, task))
    }

    fn notify(&self, worker: Option<usize>) {
        if let Some(worker) = worker {
            self.worker_signals[worker].notify_one();
        }
    }

    /// The next action of a worker, and whether a batch that it starts may be [run here](crate::Job::start_here). With
    /// `turn.wait` it first waits for callers to come back. `is_signaled` returns whether one of its batches must be
    /// polled; the future itself must not be polled here, under the lock.
    pub(crate) fn next(
        &self,
        worker: usize,
        taken: &mut TakenBatch<Request<I, R>>,
        turn: Turn,
        is_signaled: impl Fn() -> bool,
    ) -> (Action, bool) {
        let mut shared = self.shared.lock();
        loop {
            let now = self.now();
            shared.scheduler.wakes(worker, now);
            shared.lending[worker].signaled = false;
            shared.queue.expire(now, &mut taken.expired);
            if !taken.expired.is_empty() {
                return (Action::Settle, false);
            }
            let (capacity, decision) = shared.decide(worker, now);
            let Shared { queue, scheduler, closed, .. } = &mut *shared;
            if let Some(Retry { rows, first }) = turn.retry
                && scheduler.can_start(worker)
                && (first || !matches!(decision, Decision::Start(..)))
            {
                scheduler.started(worker, rows, now);
                return (Action::Retry, false);
            }
            let until = match decision {
                Decision::Start(key, reason) => {
                    let queued = queue.rows();
                    queue.take(taken, key, now, &capacity, |request| request.sender.is_gone());
                    self.queued.store(queue.rows(), Ordering::Relaxed);
                    if taken.batch.is_empty() {
                        return (Action::Settle, false);
                    }
                    let here = shared.is_run_here(worker, taken.rows);
                    shared.scheduler.dispatched(worker, taken.rows, queued, now);
                    // There may be enough for another worker, too.
                    let woken = shared.worker_to_wake(now);
                    drop(shared);
                    self.notify(woken.map(|woken| woken.worker));
                    return (Action::Start { reason, capacity: capacity.size }, here);
                }
                Decision::Until(until) => until,
            };
            // After starting batches, so that the worker is busy while answers are delivered.
            if is_signaled() {
                return (Action::Poll, false);
            }
            if closed.is_some() && queue.rows() == 0 && !turn.busy && turn.retry.is_none() {
                return (Action::End, false);
            }
            if let Some(target) = capacity.linger
                && turn.wait
            {
                drop(shared);
                self.await_callers(target);
                shared = self.shared.lock();
                continue;
            }
            if turn.unsettled {
                return (Action::Settle, false);
            }
            scheduler.sleeps(worker, until);
            // Other workers may be asleep while rows are reserved for them.
            if capacity.reserved > 0 {
                let woken = shared.worker_to_wake(now).map(|woken| woken.worker).filter(|other| *other != worker);
                self.notify(woken);
                shared.scheduler.sleeps(worker, until);
            }
            return (Action::Wait(until.map(|until| until.saturating_sub(now))), false);
        }
    }

    /// Yields until the callers' rows are queued, or the time is up. Waking a sleeping thread takes longer than they
    /// take to arrive.
    fn await_callers(&self, target: LingerTarget) {
        while self.queued.load(Ordering::Relaxed) < target.rows && self.now() < target.until {
            yield_now();
        }
    }

    /// The oldest batch of a worker has finished; `well`: successfully.
    pub(crate) fn finished(&self, worker: usize, well: bool) -> QueueState {
        let mut shared = self.shared.lock();
        let now = self.now();
        let queued = shared.queue.rows();
        if well {
            shared.scheduler.finished(worker, queued, now);
        } else {
            shared.scheduler.failed(worker, now);
        }
        shared.update_limits();
        shared.queue_state()
    }

    /// The newest batch of a worker did not start.
    pub(crate) fn not_started(&self, worker: usize) {
        self.shared.lock().scheduler.not_started(worker);
    }

    /// A worker has failed: others take its share.
    pub(crate) fn worker_failed(&self, worker: usize) {
        let mut shared = self.shared.lock();
        shared.scheduler.worker_failed(worker);
        let woken = shared.worker_to_wake(self.now());
        drop(shared);
        self.notify(woken.map(|woken| woken.worker));
    }

    /// A failed worker works again.
    pub(crate) fn worker_recovered(&self, worker: usize) {
        self.shared.lock().scheduler.worker_recovered(worker);
    }

    /// A failed worker will not recover. With the last one the batcher is closed, and its queued requests are returned.
    pub(crate) fn worker_ended(&self, refusal: Refusal<R>) -> Vec<Request<I, R>> {
        let mut stranded = Vec::new();
        let mut shared = self.shared.lock();
        if !shared.scheduler.have_all_failed() {
            return stranded;
        }
        let unused = shared.close(refusal);
        shared.queue.sweep(|_| true, &mut stranded);
        drop(shared);
        drop(unused);
        stranded
    }

    /// Wakes a worker.
    pub(crate) fn signal(&self, worker: usize) {
        let mut shared = self.shared.lock();
        shared.lending[worker].signaled = true;
        shared.scheduler.wakes(worker, self.now());
        drop(shared);
        self.worker_signals[worker].notify_one();
    }

    /// Admits no more requests. The first reason is kept.
    pub(crate) fn close(&self, why: Error) {
        let refuse = self.refuse;
        let refusal: Refusal<R> = Arc::new(move || refuse(why.clone()));
        let mut shared = self.shared.lock();
        let unused = shared.close(refusal);
        let now = self.now();
        (0..self.worker_signals.len()).for_each(|worker| shared.scheduler.wakes(worker, now));
        drop(shared);
        drop(unused);
        for worker in &self.worker_signals {
            worker.notify_one();
        }
    }

    /// The answer of requests that are not admitted because it is closed.
    pub(crate) fn closed(&self) -> Option<R> {
        let refusal = self.shared.lock().closed.clone();
        refusal.map(|refusal| refusal())
    }

    /// A snapshot of the metrics.
    pub(crate) fn metrics(&self) -> BatchMetrics {
        let queue = self.shared.lock().queue_state();
        self.metrics.snapshot(queue)
    }

    /// The metrics of each worker.
    pub(crate) fn worker_metrics(&self) -> Vec<WorkerMetrics> {
        self.shared.lock().scheduler.metrics()
    }
}

impl<I, R> Shared<I, R> {
    /// Applies the limits of the scheduler.
    fn update_limits(&mut self) {
        if let Some((capacity, max_wait)) = self.scheduler.limits() {
            self.queue.set_limits(capacity, max_wait);
        }
    }

    /// Closes it. If it is closed already, the reason is returned, to be dropped outside the lock.
    fn close(&mut self, refusal: Refusal<R>) -> Option<Refusal<R>> {
        if self.closed.is_some() {
            return Some(refusal);
        }
        self.closed.replace(refusal)
    }

    fn queue_state(&self) -> QueueState {
        QueueState {
            queued_rows: self.queue.rows(),
            blocked_requests: self.queue.blocked_requests(),
            batch_size: self.scheduler.batch_size(),
        }
    }

    /// Whether a request of `rows` rows is admitted, if requests without room are rejected.
    fn has_room(&self, now: Duration, rows: usize) -> bool {
        self.queue.has_room(rows) && self.scheduler.is_in_time(now, self.queue.rows(), rows)
    }

    /// What a worker should do, or when it must check again.
    fn decide(&self, worker: usize, now: Duration) -> (Capacity, Decision) {
        let queued = self.queue.rows();
        let capacity = self.scheduler.capacity(worker, now, queued);
        let decision = match self.queue.decide(now, &capacity, self.closed.is_some()) {
            Decision::Until(until) if queued > 0 => {
                Decision::Until(until.into_iter().chain(self.scheduler.look_again(&capacity, now)).min())
            }
            decision => decision,
        };
        (capacity, decision)
    }

    /// Whether a worker may complete a batch of `rows` rows before it does anything else: nothing else is queued or in
    /// flight, and it will not take long.
    fn is_run_here(&self, worker: usize, rows: usize) -> bool {
        let rest = self.queue.rows() > 0 || !self.scheduler.is_idle();
        !rest && self.lone.is_alone() && self.is_expected(worker, rows, LONGEST)
    }

    /// A sleeping worker to wake: one that could take a batch now, else one that must check earlier.
    fn worker_to_wake(&mut self, now: Duration) -> Option<Wake> {
        let mut earlier = None;
        let starts = |(worker, until): (usize, Option<Duration>)| match self.decide(worker, now).1 {
            Decision::Start(..) => Some(Wake { worker, starts: true }),
            Decision::Until(look) => {
                if look.is_some_and(|look| until.is_none_or(|until| look < until)) {
                    earlier.get_or_insert(Wake { worker, starts: false });
                }
                None
            }
        };
        let woken = self.scheduler.sleepers().find_map(starts).or(earlier)?;
        self.scheduler.wakes(woken.worker, now);
        Some(woken)
    }
}

pub(crate) fn too_late() -> Error {
    Error::new(ErrorKind::Overloaded, "the batcher would answer later than its target")
}

fn queue_full() -> Error {
    Error::new(ErrorKind::Overloaded, "the queue of the batcher is full")
}

pub(crate) fn expired() -> Error {
    Error::new(ErrorKind::Expired, "the deadline passed before the request was started")
}
