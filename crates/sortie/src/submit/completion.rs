//! How a batch ends, told once to everyone who waits for it.
//!
//! | state | entered by | waiting on it |
//! |---|---|---|
//! | `Recording` | the first `read` of a batch | an error at once: nothing was submitted |
//! | `Pending` | `submit` | sleeps |
//! | `Done` | landing, a refusal, or dropping the batch | the result, the same for all |
//!
//! Invariant: `Done` is entered once and never left.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::sync::{Condvar, Mutex};
use crate::error::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(crate) struct Completion {
    state: Mutex<State>,
    changed: Condvar,
    /// Set together with `Done`, so that asking costs no lock.
    done: AtomicBool,
    keys: AtomicU64,
}

#[derive(Debug)]
enum State {
    Recording,
    /// Whom to wake, one waker for each key.
    Pending(Vec<(u64, Waker)>),
    Done(Result<()>),
}

impl Completion {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Recording),
            changed: Condvar::new(),
            done: AtomicBool::new(false),
            keys: AtomicU64::new(0),
        }
    }

    /// The batch has been handed over.
    pub(crate) fn submitted(&self) {
        let mut state = self.state.lock();
        if let State::Recording = *state {
            *state = State::Pending(Vec::new());
        }
    }

    /// Ends it; the first to do so decides the result.
    pub(crate) fn finish(&self, result: Result<()>) {
        let mut state = self.state.lock();
        if let State::Done(_) = *state {
            return;
        }
        let before = std::mem::replace(&mut *state, State::Done(result));
        self.done.store(true, Ordering::Release);
        drop(state);
        self.changed.notify_all();
        // Wakers run foreign code: never under the lock, and a panic of theirs is not ours.
        if let State::Pending(wakers) = before {
            wakers.into_iter().for_each(|(_, waker)| drop(catch_unwind(AssertUnwindSafe(|| waker.wake()))));
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
                State::Pending(_) => self.changed.wait(&mut state),
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
                State::Pending(_) => {
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
            State::Pending(wakers) => {
                match wakers.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, waker)) => waker.clone_from(cx.waker()),
                    None => wakers.push((key, cx.waker().clone())),
                }
                Poll::Pending
            }
        }
    }
}

fn not_submitted() -> Error {
    Error::new(ErrorKind::Canceled, "the batch has not been submitted yet: submit it before waiting")
}
