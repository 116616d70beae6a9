//! The requests of one attempt: their inputs side by side, as a job takes them, and their callers in the same order.

use std::time::Duration;

use super::{front::Request, isolate::Attempts, queue::Waiting, reply::Address};

#[derive(Debug)]
pub(super) struct Requests<I, O> {
    pub(super) inputs: Vec<I>,
    pub(super) callers: Vec<Caller<O>>,
    /// Attempts that are left, once an attempt with these and perhaps others has failed.
    pub(super) attempts: Option<Attempts>,
}

/// Who asked.
#[derive(Debug)]
pub(super) struct Caller<O> {
    pub(super) address: Address<O>,
    pub(super) rows: usize,
    pub(super) deadline: Option<Duration>,
}

impl<I, O> Default for Requests<I, O> {
    fn default() -> Self {
        Self { inputs: Vec::new(), callers: Vec::new(), attempts: None }
    }
}

impl<I, O> Requests<I, O> {
    pub(super) fn push(&mut self, waiting: Waiting<Request<I, O>>) {
        let Waiting { request: Request { input, address }, rows, deadline, .. } = waiting;
        self.inputs.push(input);
        self.callers.push(Caller { address, rows, deadline });
    }

    pub(super) fn len(&self) -> usize {
        self.callers.len()
    }

    pub(super) fn rows(&self) -> usize {
        self.callers.iter().map(|caller| caller.rows).sum()
    }

    /// Cuts off those from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let (inputs, callers) = (self.inputs.split_off(at), self.callers.split_off(at));
        Self { inputs, callers, attempts: self.attempts.clone() }
    }

    /// Takes out those that `which` says, in their order; most often none.
    pub(super) fn take_out(&mut self, which: impl Fn(&Caller<O>) -> bool, out: &mut Vec<(I, Caller<O>)>) {
        if !self.callers.iter().any(&which) {
            return;
        }
        let all = std::mem::take(&mut self.inputs).into_iter().zip(std::mem::take(&mut self.callers));
        for (input, caller) in all {
            if which(&caller) {
                out.push((input, caller));
            } else {
                self.inputs.push(input);
                self.callers.push(caller);
            }
        }
    }
}
