//! Lends sleeping workers to lone callers, who then run their own batches: no thread has to be woken.
//!
//! | state of a worker | entered by | left by |
//! |---|---|---|
//! | kept | its thread wakes, or does not lend it | its thread sleeps |
//! | offered | its thread sleeps; a caller gives it back | a request starts at once |
//! | promised | a task is to run the batch when it is polled next | that poll; dropping the task's request; the thread, after [`PATIENCE`] |
//! | lent | a caller takes it | the caller, after one batch |
//!
//! Invariants: the thread of a lent worker does not touch its core. A promised batch starts: the task starts it, or hands
//! it over when it is dropped, or the thread starts it.

use std::time::Duration;

use super::{BatcherState, Shared};
use crate::{
    caller::{CallerKind, CallerTask},
    lone::CallerTurn,
};

/// A caller whose thread waits runs a batch that is expected to take at most this long. During that
/// time requests that expire are not rejected, and for longer batches the cost of waking a thread matters less.
pub(super) const LONGEST: Duration = Duration::from_millis(1);
/// The same for a caller that is polled: an executor's other tasks wait for it.
const LONGEST_POLL: Duration = Duration::from_micros(50);
/// A promised batch that is not started by then is started by the worker's thread: an executor may be busy.
const PATIENCE: Duration = Duration::from_millis(1);

/// The state of a worker's lending.
#[derive(Debug, Default)]
pub(super) struct Lending {
    state: LendingState,
    /// When the timer of its sleeping thread ends.
    timer: Option<Duration>,
    /// A batch in flight was signaled since the worker last looked.
    pub(super) signaled: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LendingState {
    #[default]
    Kept,
    Offered,
    Promised {
        /// When the thread starts the batch.
        until: Duration,
    },
    Lent,
}

/// A sleeping worker that has something to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub(super) worker: usize,
    /// Whether it starts a batch; otherwise it only has to check the time.
    pub(super) starts: bool,
}

impl<I, R: 'static> BatcherState<I, R> {
    /// Sleeps until a worker has something to do. Callers may run batches of a worker that `lends` meanwhile.
    pub(crate) fn sleep(&self, worker: usize, lends: bool) {
        let mut shared = self.shared.lock();
        shared.lending[worker].state = if lends { LendingState::Offered } else { LendingState::Kept };
        loop {
            let now = self.now();
            let until = match shared.lending[worker].state {
                LendingState::Lent => None,
                LendingState::Promised { until } if now < until => Some(until),
                LendingState::Promised { .. } => break,
                LendingState::Kept | LendingState::Offered => match shared.scheduler.sleep_of(worker) {
                    Some(until) if until.is_none_or(|until| now < until) => until,
                    _ => break,
                },
            };
            shared.lending[worker].timer = until;
            match until {
                Some(until) => {
                    self.worker_signals[worker].wait_for(&mut shared, until.saturating_sub(now));
                }
                None => self.worker_signals[worker].wait(&mut shared),
            }
            shared.lending[worker].timer = None;
        }
        shared.lending[worker].state = LendingState::Kept;
        let now = self.now();
        shared.scheduler.wakes(worker, now);
    }

    /// Lends a promised worker to the caller, if the thread has not taken it.
    pub(crate) fn claim(&self) -> Option<usize> {
        let mut shared = self.shared.lock();
        let worker = shared.promised()?;
        shared.lending[worker].state = LendingState::Lent;
        Some(worker)
    }

    /// A caller has run a batch of a worker. `busy`: the worker's thread has something to do besides the queue.
    pub(crate) fn give_back(&self, worker: usize, busy: bool) {
        let mut shared = self.shared.lock();
        let now = self.now();
        shared.lone.finished(now);
        let Lending { timer, signaled, .. } = shared.lending[worker];
        shared.lending[worker].state = LendingState::Offered;
        if busy || signaled || shared.closed.is_some() {
            drop(shared);
            return self.notify(Some(worker));
        }
        shared.scheduler.stops_lingering(worker);
        shared.scheduler.sleeps(worker, timer);
        let woken = shared.worker_to_wake(now).map(|woken| woken.worker);
        drop(shared);
        self.notify(woken);
    }

    /// A caller that was to run a batch will not be polled: the threads of promised workers run it.
    pub(crate) fn pass_on(&self) {
        let mut shared = self.shared.lock();
        let mut woken = Vec::new();
        while let Some(worker) = shared.promised() {
            shared.lending[worker].state = LendingState::Offered;
            woken.push(worker);
        }
        drop(shared);
        woken.into_iter().for_each(|worker| self.notify(Some(worker)));
    }
}

impl<I, R> Shared<I, R> {
    /// What the caller of a request does that was just queued, and the thread to wake. `idle`: nothing was queued or in
    /// flight before.
    pub(super) fn task_of(&mut self, caller: CallerKind, idle: bool, now: Duration) -> (CallerTask, Option<usize>) {
        self.lone.arrived(idle);
        let Some(Wake { worker, starts }) = self.worker_to_wake(now) else {
            return (CallerTask::Wait, None);
        };
        let rows = self.queue.rows();
        let lent = starts && self.lending[worker].state == LendingState::Offered && self.lone.is_alone();
        match caller {
            CallerKind::Blocked if lent && self.is_expected(worker, rows, LONGEST) => self.lend(worker),
            CallerKind::Polled if lent && self.is_expected(worker, rows, LONGEST_POLL) => match self.lone.turn(now) {
                CallerTurn::Now => self.lend(worker),
                CallerTurn::Next => (CallerTask::Lead, self.promise(worker, now)),
            },
            _ => (CallerTask::Wait, Some(worker)),
        }
    }

    fn lend(&mut self, worker: usize) -> (CallerTask, Option<usize>) {
        self.lending[worker].state = LendingState::Lent;
        (CallerTask::Run(worker), None)
    }

    /// Whether a batch of a worker, of at most `rows` rows, is expected to take at most this long.
    pub(super) fn is_expected(&self, worker: usize, rows: usize, within: Duration) -> bool {
        self.scheduler.expected_time(worker, rows).is_some_and(|time| time <= within)
    }

    fn promised(&self) -> Option<usize> {
        self.lending.iter().position(|lending| matches!(lending.state, LendingState::Promised { .. }))
    }

    /// Promises a worker's batch to a task. Returns the worker if its thread must be woken to look after it.
    fn promise(&mut self, worker: usize, now: Duration) -> Option<usize> {
        let until = now + PATIENCE;
        let lending = &mut self.lending[worker];
        lending.state = LendingState::Promised { until };
        lending.timer.is_none_or(|timer| timer > until).then_some(worker)
    }
}
