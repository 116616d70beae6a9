//! What happens to the requests of a batch that failed: all fail, or the batch is run again in two halves, so that only the requests that cause the failure fail.
//!
//! Pure: the worker makes the attempts. A batch is halved until its parts succeed or have one request. With `c` culprits among `n` requests that takes at most `2 c ⌈log2 n⌉` further
//! attempts: each culprit fails at most one attempt of each size, and each failed attempt is followed by two. A batch of `n` requests has [`max_attempts`] further attempts: a part that
//! fails after them fails as a whole, with its own error.
//!
//! Invariant: further attempts of a batch never exceed [`max_attempts`].

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Further attempts that any failed batch has: batches of up to 33 requests are isolated completely.
const MIN_ATTEMPTS: usize = 64;
/// A larger batch has one further attempt for this number of its requests. With 3 % culprits it takes one for about three.
const REQUESTS_PER_ATTEMPT: usize = 2;

/// Most further attempts of a batch of `requests` requests.
#[must_use]
pub fn max_attempts(requests: usize) -> usize {
    (requests / REQUESTS_PER_ATTEMPT).max(MIN_ATTEMPTS)
}

/// The further attempts that a failed batch has left. Its parts share them.
#[derive(Clone, Debug)]
pub struct Attempts(Arc<AtomicUsize>);

impl Attempts {
    /// Those of a batch of `requests` requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(max_attempts(requests))))
    }

    /// Takes two, if there are two.
    fn take_two(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(2)).is_ok()
    }
}

/// Where a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The worker was to be [reset](crate::Job::reset) after a panic.
    Reset,
    /// In [`Job::start`](crate::Job::start).
    Start,
    /// The future that it returned failed.
    Run,
    /// The future had succeeded; its answers could not be taken, or were of a wrong number.
    Answers,
}

/// What happens to the requests of a batch that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All fail with its error.
    Fail,
    /// Two further attempts: with this many requests from the front, and with the rest.
    Halve(usize),
}

/// What happens to `requests` requests after an attempt with them failed. `isolates`: the failure may be caused by one of them, and not by all alike.
///
/// ```
/// use sortie_batcher::isolate::{Attempts, Verdict, verdict};
///
/// let attempts = Attempts::new(10);
/// assert_eq!(verdict(true, 10, &attempts), Verdict::Halve(5));
/// assert_eq!(verdict(true, 1, &attempts), Verdict::Fail); // the culprit
/// assert_eq!(verdict(false, 10, &attempts), Verdict::Fail); // a lost device, say
/// ```
#[must_use]
pub fn verdict(isolates: bool, requests: usize, attempts: &Attempts) -> Verdict {
    if requests > 1 && isolates && attempts.take_two() {
        return Verdict::Halve(requests.div_ceil(2));
    }
    Verdict::Fail
}

#[cfg(test)]
mod tests;
