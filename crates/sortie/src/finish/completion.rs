//! How a batch ends, told once to everyone who waits for it.
//!
//! | state | entered by | waiting on it |
//! |---|---|---|
//! | `Recording` | the first `read` of a batch | an error at once: nothing was submitted |
//! | `Pending` | `submit` | sleeps |
//! | `Pending`, started | its first submission leaving | sleeps |
//! | `Done` | landing, a refusal, dropping the batch, or canceling it before it started | the result, the same for all |
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
    /// Set together with `Done`, so that asking costs no lock.
    done: AtomicBool,
    /// Somebody wants it to end. What has started looks at it now and then.
    canceled: AtomicBool,
    keys: AtomicU64,
}

#[derive(Debug)]
enum State {
    Recording,
    Pending {
        /// Whom to wake, one waker for each key.
        wakers: Vec<(u64, Waker)>,
        started: bool,
    },
    Done(Result<()>),
}

/// Whom to tell of an end. They run foreign code: never under a lock, nor while others wait for their turn.
#[derive(Debug, Default)]
#[must_use = "whoever waits must hear of it"]
pub(crate) struct Wakers(Vec<(u64, Waker)>);

impl Wakers {
    pub(crate) fn wake(self) {
        // A panic of theirs is not ours.
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

    /// The batch has been handed over.
    pub(crate) fn submitted(&self) {
        let mut state = self.state.lock();
        if let State::Recording = *state {
            *state = State::Pending { wakers: Vec::new(), started: false };
        }
    }

    /// A submission is about to leave; false when the batch is over already, and it must not.
    pub(crate) fn begin(&self) -> bool {
        match &mut *self.state.lock() {
            State::Pending { started, .. } => *started = true,
            State::Recording => {}
            State::Done(_) => return false,
        }
        true
    }

    /// Ends it at once if it has not started; what has started may stop at the next occasion.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
        let not_started = |state: &State| matches!(state, State::Pending { started: false, .. });
        self.end_if(not_started, Err(canceled())).wake();
    }

    /// Set by [`Completion::cancel`].
    pub(crate) fn canceled(&self) -> &AtomicBool {
        &self.canceled
    }

    /// Ends it; the first to do so decides the result.
    pub(crate) fn finish(&self, result: Result<()>) {
        self.end(result).wake();
    }

    /// As [`Completion::finish`], but for those who are still to be woken.
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
        // A timeout too far away to be a point in time is no timeout.
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

    /// A number of one's own to poll with.
    pub(crate) fn key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Whoever polls again with the same key replaces its waker.
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

/// The error of a batch that somebody wanted to end.
pub(crate) fn canceled() -> Error {
    Error::new(ErrorKind::Canceled, "the batch was canceled")
}

fn not_submitted() -> Error {
    Error::new(ErrorKind::NotSubmitted, "the batch has not been submitted yet: submit it before waiting")
}
