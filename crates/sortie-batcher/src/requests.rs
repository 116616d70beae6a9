//! The requests of one attempt: the inputs in one list, as a job takes them, and their callers in the same order.
//! Inputs are kept until they are answered, because a failed batch is run again.

use std::time::Duration;

use crate::{isolate::Attempts, queue::QueuedRequest, reply::Sender};

/// An admitted request.
pub(crate) struct Request<I, R> {
    pub(crate) input: I,
    pub(crate) sender: Sender<R>,
}

pub(crate) struct Requests<I, R> {
    pub(crate) inputs: Vec<I>,
    pub(crate) callers: Vec<Caller<R>>,
    /// Remaining attempts, if an attempt with these requests has failed.
    pub(crate) attempts: Option<Attempts>,
}

/// The caller of a request.
pub(crate) struct Caller<R> {
    pub(crate) sender: Sender<R>,
    pub(crate) rows: usize,
    pub(crate) deadline: Option<Duration>,
}

impl<I, R> Default for Requests<I, R> {
    fn default() -> Self {
        Self { inputs: Vec::new(), callers: Vec::new(), attempts: None }
    }
}

impl<I, R> Requests<I, R> {
    pub(crate) fn push(&mut self, queued: QueuedRequest<Request<I, R>>) {
        let QueuedRequest { request: Request { input, sender }, rows, deadline, .. } = queued;
        self.inputs.push(input);
        self.callers.push(Caller { sender, rows, deadline });
    }

    pub(crate) fn len(&self) -> usize {
        self.callers.len()
    }

    pub(crate) fn rows(&self) -> usize {
        self.callers.iter().map(|caller| caller.rows).sum()
    }

    /// Removes and returns the requests from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let (inputs, callers) = (self.inputs.split_off(at), self.callers.split_off(at));
        Self { inputs, callers, attempts: self.attempts.clone() }
    }

    /// Removes the requests that `which` selects, in their order; usually none.
    pub(crate) fn remove(&mut self, which: impl Fn(&Caller<R>) -> bool, removed: &mut Vec<(I, Caller<R>)>) {
        if !self.callers.iter().any(&which) {
            return;
        }
        let all = std::mem::take(&mut self.inputs).into_iter().zip(std::mem::take(&mut self.callers));
        for (input, caller) in all {
            if which(&caller) {
                removed.push((input, caller));
            } else {
                self.inputs.push(input);
                self.callers.push(caller);
            }
        }
    }
}
