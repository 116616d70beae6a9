//! Decides what happens to the requests of a failed batch: all fail, or the batch is run again in two halves, so that
//! only the requests that cause the failure fail.
//!
//! Pure: the worker makes the attempts. A batch is halved until its parts succeed or have one request. With `c`
//! culprits among `n` requests that takes at most `2 c ⌈log2 n⌉` further attempts: each culprit fails at most one
//! attempt of each size, and each failed attempt is followed by two. A batch of `n` requests has [`max_attempts`]
//! further attempts: a part that fails after them fails as a whole, with its own error.
//!
//! Invariant: further attempts of a batch never exceed [`max_attempts`].

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Minimum number of further attempts of a failed batch: batches of up to 33 requests are isolated completely.
const MIN_ATTEMPTS: usize = 64;
/// A larger batch has one further attempt per this number of requests. With 3 % culprits it takes one for about three.
const REQUESTS_PER_ATTEMPT: usize = 2;

/// Maximum further attempts of a batch of `requests` requests.
#[must_use]
pub fn max_attempts(requests: usize) -> usize {
    (requests / REQUESTS_PER_ATTEMPT).max(MIN_ATTEMPTS)
}

/// The remaining further attempts of a failed batch. Its parts share them.
#[derive(Clone, Debug)]
pub struct Attempts(Arc<AtomicUsize>);

impl Attempts {
    /// The attempts of a batch of `requests` requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(max_attempts(requests))))
    }

    /// Takes two attempts, if there are two.
    fn take_two(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(2)).is_ok()
    }
}

/// Where a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the [reset](crate::Job::reset) of the worker after a panic.
    Reset,
    /// In [`Job::start`](crate::Job::start).
    Start,
    /// In the future that `start` returned.
    Run,
    /// After the future succeeded: its answers could not be extracted, or their number was wrong.
    Answers,
}

/// What happens to the requests of a failed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All fail with the batch's error.
    Fail,
    /// Two further attempts: with the first this many requests, and with the rest.
    Halve(usize),
}

/// Decides what happens to `requests` requests after an attempt with them failed. `isolates`: one of them may have
/// caused the failure, rather than something that concerns all.
///
/// ```
/// use sortie_batcher::isolate::{Attempts, Verdict, verdict};
///
/// let attempts = Attempts::new(10);
/// assert_eq!(verdict(true, 10, &attempts), Verdict::Halve(5));
/// assert_eq!(verdict(true, 1, &attempts), Verdict::Fail); // the culprit
/// assert_eq!(verdict(false, 10, &attempts), Verdict::Fail); // for example a lost device
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
