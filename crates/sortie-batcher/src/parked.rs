//! The cores of sleeping workers. A caller whose batch would start at once takes one and runs the batch itself, so that
//! no thread has to be woken for it.
//!
//! [`BatcherState`](crate::state::BatcherState) decides who may take a core; this module moves it.
//!
//! Invariant: a core that a caller has taken is put back, also after a panic.

use std::task::{Context, Poll};

use crate::{
    caller::CallerTask,
    job::Job,
    reply::{Receiver, Reply},
    state::{ReplyOf, StateOf},
    sync::Mutex,
    worker_core::WorkerCore,
};

/// A place for the core of each worker.
pub(crate) struct Parked<J: Job>(Vec<Mutex<Option<Box<WorkerCore<J>>>>>);

/// A core that a caller has taken.
struct Taken<'a, J: Job> {
    state: &'a StateOf<J>,
    parked: &'a Parked<J>,
    worker: usize,
    core: Option<Box<WorkerCore<J>>>,
}

impl<J: Job> Parked<J> {
    /// Places for this number of workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::new(None)).collect())
    }

    pub(crate) fn put(&self, worker: usize, core: Option<Box<WorkerCore<J>>>) {
        *self.0[worker].lock() = core;
    }

    pub(crate) fn take(&self, worker: usize) -> Option<Box<WorkerCore<J>>> {
        self.0[worker].lock().take()
    }

    /// Does what the caller of an admitted request is to do.
    pub(crate) fn perform(&self, state: &StateOf<J>, task: CallerTask, receiver: &Receiver<ReplyOf<J>>) {
        match task {
            CallerTask::Wait => {}
            CallerTask::Run(worker) => self.run(state, worker, receiver),
            CallerTask::Lead => receiver.lead(),
        }
    }

    /// Polls for the answer of a caller. Runs a batch first if the caller is to run one.
    pub(crate) fn poll(
        &self,
        state: &StateOf<J>,
        receiver: &mut Receiver<ReplyOf<J>>,
        cx: &mut Context<'_>,
    ) -> Poll<ReplyOf<J>> {
        loop {
            match receiver.poll(cx) {
                Reply::Answered(answer) => return Poll::Ready(answer),
                Reply::Waiting => return Poll::Pending,
                Reply::Lead => match state.claim() {
                    Some(worker) => self.run(state, worker, receiver),
                    None => return Poll::Pending,
                },
            }
        }
    }

    /// Runs one batch of a worker that was lent to the calling thread, a caller's. Remaining work is left to others: another
    /// caller, or the worker's thread.
    fn run(&self, state: &StateOf<J>, worker: usize, receiver: &Receiver<ReplyOf<J>>) {
        // It is polled afterwards.
        receiver.mute();
        let mut taken = Taken { state, parked: self, worker, core: self.take(worker) };
        if let Some(core) = &mut taken.core {
            core.run_on_caller();
        }
    }
}

impl<J: Job> Drop for Taken<'_, J> {
    fn drop(&mut self) {
        let busy = self.core.as_ref().is_none_or(|core| core.is_busy());
        self.parked.put(self.worker, self.core.take());
        self.state.give_back(self.worker, busy);
    }
}
