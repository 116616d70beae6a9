//! A batch in flight: its future, in a slot that is reused, and its requests.
//!
//! Invariant: only its worker polls the future, outside all locks. The future's waker sets a flag, which the shared
//! state reads.
//!
//! Batches of a worker are polled when they ask for it, and answered in the order in which they started.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, ErrorKind},
    job::Job,
    requests::Requests,
    state::{ReplyOf, StateOf},
    sync::AtomicBool,
};

pub(crate) type RequestsOf<J> = Requests<<J as Job>::Input, ReplyOf<J>>;
/// The output of a batch's future.
type OutcomeOf<J> = Result<<J as Job>::Answers, <J as Job>::Error>;

/// A batch in flight.
pub(crate) struct InFlight<J: Job> {
    slot: Slot<J>,
    pub(crate) requests: RequestsOf<J>,
    pub(crate) started: Duration,
    /// When it started and with how many rows, if it is traced.
    pub(crate) traced: Option<(Instant, usize)>,
    /// The output of the future.
    outcome: Option<OutcomeOf<J>>,
}

/// Storage for the future of a batch. Reused, so that a batch costs no allocation.
pub(crate) struct Slot<J: Job> {
    running: Pin<Box<Option<J::Running>>>,
    waker: Waker,
    signal: Arc<WorkerWaker<J>>,
}

/// Marks a batch for polling, and wakes its worker.
struct WorkerWaker<J: Job> {
    state: Weak<StateOf<J>>,
    worker: usize,
    signaled: AtomicBool,
}

impl<J: Job> Wake for WorkerWaker<J> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.signaled.swap(true, Ordering::AcqRel)
            && let Some(state) = self.state.upgrade()
        {
            state.signal(self.worker);
        }
    }
}

impl<J: Job> Slot<J> {
    pub(crate) fn new(state: &Arc<StateOf<J>>, worker: usize) -> Self {
        let signaled = AtomicBool::new(false);
        let signal = Arc::new(WorkerWaker { state: Arc::downgrade(state), worker, signaled });
        Self { running: Box::pin(None), waker: Waker::from(signal.clone()), signal }
    }
}

impl<J: Job> InFlight<J> {
    pub(crate) fn new(
        mut slot: Slot<J>,
        running: J::Running,
        requests: RequestsOf<J>,
        started: Duration,
        traced: Option<(Instant, usize)>,
    ) -> Self {
        slot.running.set(Some(running));
        Self { slot, requests, started, traced, outcome: None }
    }

    /// Whether its waker was called since it was last polled.
    pub(crate) fn is_signaled(&self) -> bool {
        self.slot.signal.signaled.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.outcome.is_some()
    }

    /// Polls the future, unless it has finished. Returns whether it panicked.
    pub(crate) fn poll(&mut self) -> bool {
        // Before polling, so that later wake-ups are seen.
        self.slot.signal.signaled.store(false, Ordering::Release);
        let Slot { running, waker, .. } = &mut self.slot;
        let Some(future) = running.as_mut().as_pin_mut() else { return false };
        let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(waker))));
        let (outcome, panicked) = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(outcome)) => (outcome, false),
            Err(_) => (Err(job_panicked("running a batch").into()), true),
        };
        self.outcome = Some(outcome);
        // A panic in its drop is attributed to the job.
        catch_unwind(AssertUnwindSafe(|| running.set(None))).is_err() || panicked
    }

    /// Its parts: the slot without the future, the requests, and the output of the future.
    pub(crate) fn into_parts(mut self) -> (Slot<J>, RequestsOf<J>, Option<OutcomeOf<J>>) {
        self.slot.running.set(None);
        (self.slot, self.requests, self.outcome)
    }
}

pub(crate) fn job_panicked(what: &str) -> Error {
    Error::new(ErrorKind::JobPanicked, format!("a job panicked while {what}"))
}
