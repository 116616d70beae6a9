//! The result of a batch, set once and seen by every ticket and reading of it.
//!
//! | state | entered by | waiting on it |
//! |---|---|---|
//! | `Recording` | the first `read` of a batch | an error at once: nothing was submitted |
//! | `Pending` | `submit` | sleeps |
//! | `Pending`, started | its first submission is about to be submitted | sleeps |
//! | `Done` | its last submission is done, an error, dropping the batch, or canceling it before it started | the result, the same for all |
//!
//! Invariant: `Done` is entered once and never left.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::sync::{Condvar, Mutex};
use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
};

#[derive(Debug)]
pub(crate) struct Completion {
    state: Mutex<State>,
    changed: Condvar,
    /// Set together with `Done`, so that `is_done` takes no lock.
    done: AtomicBool,
    /// Cancellation was requested. Running work checks it from time to time.
    pub(crate) canceled: AtomicBool,
    keys: AtomicU64,
}

#[derive(Debug)]
enum State {
    Recording,
    Pending {
        /// One waker per key.
        wakers: Vec<(u64, Waker)>,
        started: bool,
    },
    Done(Result<()>),
}

/// The wakers of a finished batch. They run user code: call them without holding a lock or the turn.
#[derive(Debug, Default)]
#[must_use = "tasks that wait for the batch must be woken"]
pub(crate) struct Wakers(Vec<(u64, Waker)>);

impl Wakers {
    pub(crate) fn wake(self) {
        // A panic in a user's waker must not end our thread.
        self.0.into_iter().for_each(|(_, waker)| drop(catch_unwind(AssertUnwindSafe(|| waker.wake()))));
    }
}

impl Completion {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Recording),
            changed: Condvar::new(),
            done: AtomicBool::new(false),
            canceled: AtomicBool::new(false),
            keys: AtomicU64::new(0),
        }
    }

    /// The batch was submitted: waiting on it sleeps from now on.
    pub(crate) fn submitted(&self) {
        let mut state = self.state.lock();
        if let State::Recording = *state {
            *state = State::Pending { wakers: Vec::new(), started: false };
        }
    }

    /// Marks the batch as started, before a submission. False when the batch is already done: do not submit then.
    pub(crate) fn begin(&self) -> bool {
        match &mut *self.state.lock() {
            State::Pending { started, .. } => *started = true,
            State::Recording => {}
            State::Done(_) => return false,
        }
        true
    }

    /// Ends the batch at once if it has not started. A batch that has started stops where the backend next checks
    /// [`Completion::canceled`].
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
        let not_started = |state: &State| matches!(state, State::Pending { started: false, .. });
        self.end_if(not_started, Err(canceled())).wake();
    }

    /// Ends the batch and wakes its waiters. The first call decides the result.
    pub(crate) fn finish(&self, result: Result<()>) {
        self.end(result).wake();
    }

    /// As [`Completion::finish`], but leaves waking to the caller.
    pub(crate) fn end(&self, result: Result<()>) -> Wakers {
        self.end_if(|state| !matches!(state, State::Done(_)), result)
    }

    fn end_if(&self, may: impl FnOnce(&State) -> bool, result: Result<()>) -> Wakers {
        let mut state = self.state.lock();
        if !may(&state) {
            return Wakers::default();
        }
        let before = std::mem::replace(&mut *state, State::Done(result));
        self.done.store(true, Ordering::Release);
        drop(state);
        self.changed.notify_all();
        match before {
            State::Pending { wakers, .. } => Wakers(wakers),
            State::Recording | State::Done(_) => Wakers::default(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Whether it is done and did not fail.
    pub(crate) fn succeeded(&self) -> bool {
        self.is_done() && matches!(*self.state.lock(), State::Done(Ok(())))
    }

    pub(crate) fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Done(result) => return result.clone(),
                State::Recording => return Err(not_submitted()),
                State::Pending { .. } => self.changed.wait(&mut state),
            }
        }
    }

    pub(crate) fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        // A deadline that overflows `Instant` means no timeout.
        let Some(deadline) = Instant::now().checked_add(timeout) else { return self.wait() };
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Done(result) => return result.clone(),
                State::Recording => return Err(not_submitted()),
                State::Pending { .. } => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::new(
                            ErrorKind::Timeout,
                            format!("not done after {timeout:?}; the work goes on"),
                        ));
                    }
                    self.changed.wait_for(&mut state, left);
                }
            }
        }
    }

    /// A unique key to poll with.
    pub(crate) fn key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Polling again with the same key replaces its waker.
    pub(crate) fn poll(&self, key: u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut *self.state.lock() {
            State::Done(result) => Poll::Ready(result.clone()),
            State::Recording => Poll::Ready(Err(not_submitted())),
            State::Pending { wakers, .. } => {
                match wakers.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, waker)) => waker.clone_from(cx.waker()),
                    None => wakers.push((key, cx.waker().clone())),
                }
                Poll::Pending
            }
        }
    }
}

/// The error of a canceled batch.
pub(crate) fn canceled() -> Error {
    Error::new(ErrorKind::Canceled, "the batch was canceled")
}

fn not_submitted() -> Error {
    Error::new(ErrorKind::NotSubmitted, "the batch has not been submitted yet: submit it before waiting")
}
