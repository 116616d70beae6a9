//! What becomes of the requests of an attempt that failed: all fail, or it is made again in two halves, so that only the requests that cause the failure fail.
//!
//! Pure: the worker makes the attempts. A batch is halved until its parts succeed or have one request. With `c` culprits among `n` requests that takes at most `2 c ⌈log2 n⌉` further
//! attempts: each culprit fails at most one attempt of each size, and each failed attempt is followed by two. A batch of `n` requests has [`most`] further attempts at its disposal: a part that
//! fails after them fails as a whole, with its own error.
//!
//! Invariant: further attempts of a batch never exceed [`most`].

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::error::ErrorKind;

/// Further attempts that any failed batch has: batches of up to 33 requests are isolated completely.
const FEWEST: usize = 64;
/// A larger batch has one further attempt for this number of its requests. With 3 % culprits it takes one for about three.
const REQUESTS_PER_ATTEMPT: usize = 2;

/// Most further attempts of a batch of `requests` requests.
pub(super) fn most(requests: usize) -> usize {
    (requests / REQUESTS_PER_ATTEMPT).max(FEWEST)
}

/// The further attempts that a failed batch has left. Its parts share it.
#[derive(Clone, Debug)]
pub(super) struct Attempts(Arc<AtomicUsize>);

impl Attempts {
    pub(super) fn new(requests: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(most(requests))))
    }

    /// Takes two, if there are two.
    fn take_two(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(2)).is_ok()
    }
}

/// Where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The job was to be prepared again.
    Prepare,
    /// The job recorded and submitted: nothing has run.
    Start,
    /// The device ran it.
    Execution,
    /// It had run, and the job gave an error, panicked or gave a wrong number of answers.
    Answers,
}

/// What becomes of the requests of an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All fail with its error.
    Fail,
    /// Two further attempts: with this many requests from the front, and with the rest.
    Halve(usize),
}

/// What becomes of `requests` requests, after an attempt with them failed.
pub(super) fn verdict(stage: Stage, kind: &ErrorKind, requests: usize, attempts: &Attempts) -> Verdict {
    if requests > 1 && is_of_an_input(stage, kind) && attempts.take_two() {
        return Verdict::Halve(requests.div_ceil(2));
    }
    Verdict::Fail
}

/// Whether a failure may be caused by one of the inputs. What the device, its memory or the machine cannot do now concerns all of them alike, and trying again adds to the load.
pub(super) fn is_of_an_input(stage: Stage, kind: &ErrorKind) -> bool {
    let of_all = matches!(
        kind,
        ErrorKind::DeviceLost
            | ErrorKind::NoDevice
            | ErrorKind::OutOfMemory { .. }
            | ErrorKind::Overloaded
            | ErrorKind::Timeout
            | ErrorKind::Canceled
    );
    matches!(stage, Stage::Start | Stage::Answers) && !of_all
}

#[cfg(test)]
mod tests;
