//! What a worker of a batcher does: takes batches, starts them, polls them, and answers.
//!
//! Invariants: every request that it has taken is answered, once; the outcome of a batch affects only its own requests.
//! Panics of the job are caught.
//!
//! A batch fails if it does not start, panics, gives a wrong number of answers, or if its future fails where the job
//! says that one input may be the cause. It is then run again in two halves ([`isolate`](crate::isolate)). These parts
//! and batches from the queue take turns, and each counts as a batch in flight. After a panic the job resets the
//! worker. A failed worker (`Job::worker_failed`, for example a lost device) finishes the batches in flight, then
//! recovers (`Job::recover`) or ends.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
    time::Instant,
};

use crate::{
    error::{Error, ErrorKind},
    in_flight::{InFlight, RequestsOf, Slot, job_panicked},
    isolate::{self, Attempts, Stage, Verdict},
    job::{IntoAnswers, Job},
    queue::{FlushReason, TakenBatch},
    reply::{ReplySlab, Sender},
    requests::Request,
    state::{Action, Refusal, ReplyOf, Retry, StateOf, Turn, expired, too_late},
};

/// Spare request lists kept to reuse their memory: more than the batches in flight, and a few for the parts of a failed
/// batch.
const SPARE_LISTS: usize = 8;

/// The stage and the error of a failed batch.
type Failure<J> = (Stage, <J as Job>::Error);

/// A worker's batches and memory. It is with the thread that steps the worker, with a caller that runs a batch, or
/// [parked](Parked).
pub(crate) struct WorkerCore<J: Job> {
    state: Arc<StateOf<J>>,
    job: Arc<J>,
    /// Its index among the workers of the batcher.
    index: usize,
    /// The job's state.
    own: J::Worker,
    /// The job has panicked since it was last reset.
    inconsistent: bool,
    /// Why it takes no batches until it has recovered.
    failed: Option<J::Error>,
    /// It has returned [`Action::End`], or a panic has ended it.
    ended: bool,
    /// A caller runs it.
    on_caller: bool,
    /// The batch that is being started may complete before its start returns.
    here: bool,
    in_flight: VecDeque<InFlight<J>>,
    /// Parts of failed batches to run again, the next one first.
    parts: VecDeque<RequestsOf<J>>,
    /// The last attempt was a retried part: a batch from the queue goes before the next part.
    retried: bool,
    /// Kept to reuse their memory: at most as many as there were batches in flight at once.
    slots: Vec<Slot<J>>,
    taken: TakenBatch<Request<J::Input, ReplyOf<J>>>,
    answers: Vec<ReplyOf<J>>,
    /// At most [`SPARE_LISTS`].
    spare: Vec<RequestsOf<J>>,
    /// Slabs with answered callers that are not woken yet.
    unsettled: Vec<Arc<ReplySlab<ReplyOf<J>>>>,
    wakers: Vec<Waker>,
}

impl<J: Job> WorkerCore<J> {
    pub(crate) fn new(state: Arc<StateOf<J>>, job: Arc<J>, index: usize, own: J::Worker) -> Self {
        Self {
            state,
            job,
            index,
            own,
            inconsistent: false,
            failed: None,
            ended: false,
            on_caller: false,
            here: false,
            in_flight: VecDeque::new(),
            parts: VecDeque::new(),
            retried: false,
            slots: Vec::new(),
            taken: TakenBatch::default(),
            answers: Vec::new(),
            spare: Vec::new(),
            unsettled: Vec::new(),
            wakers: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, wait: bool) -> Action {
        if self.ended {
            return Action::End;
        }
        self.guarded(|core| core.advance(wait))
    }

    /// Starts a batch on the thread of a caller, and answers it if it finishes at once.
    pub(crate) fn run_on_caller(&mut self) {
        self.guarded(|core| {
            core.on_caller = true;
            let action = core.advance(false);
            while core.in_flight.front().is_some_and(InFlight::is_finished) {
                if let Err(error) = core.poll() {
                    core.fail_worker(error);
                }
            }
            core.settle();
            action
        });
        self.on_caller = false;
    }

    /// Whether it has something to do besides the queue and the batches in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.ended || self.failed.is_some() || !self.parts.is_empty()
    }

    fn guarded(&mut self, advance: impl FnOnce(&mut Self) -> Action) -> Action {
        let action = catch_unwind(AssertUnwindSafe(|| advance(self))).unwrap_or_else(|_| {
            // Panics of the job are caught where it is called; this one is of an input or an answer that was dropped.
            // No caller is left waiting. `ended` is set first: if another one panics here, dropping the worker must
            // not.
            self.ended = true;
            self.abandon(job_panicked("dropping what it was given"));
            Action::End
        });
        self.ended |= action == Action::End;
        action
    }

    fn advance(&mut self, wait: bool) -> Action {
        if self.in_flight.is_empty()
            && let Some(error) = self.failed.take()
        {
            return self.recover(&error);
        }
        let retry = self.next_part();
        let Self { state, index, taken, in_flight, unsettled, .. } = self;
        let turn = Turn { retry, unsettled: !unsettled.is_empty(), busy: !in_flight.is_empty(), wait };
        let is_signaled =
            || in_flight.front().is_some_and(InFlight::is_finished) || in_flight.iter().any(InFlight::is_signaled);
        let (action, here) = state.next(*index, taken, turn, is_signaled);
        self.answer_dropped();
        let result = match action {
            Action::Poll => {
                self.settle();
                self.poll()
            }
            // First, so that the worker is busy while callers are woken.
            Action::Start { reason, capacity } => {
                self.here = here || self.on_caller;
                let started = self.start_taken(reason, capacity);
                self.here = false;
                started
            }
            Action::Retry => self.retry(),
            _ => Ok(()),
        };
        if action != Action::Poll {
            self.settle();
        }
        if let Err(error) = result {
            self.fail_worker(error);
        }
        action
    }

    /// Wakes every answered caller.
    fn settle(&mut self) {
        let Self { unsettled, wakers, .. } = self;
        unsettled.drain(..).for_each(|slab| slab.wake_all(wakers));
    }

    /// Answers late requests, and drops those whose callers have gone.
    fn answer_dropped(&mut self) {
        let Self { state, taken, unsettled, .. } = self;
        state.metrics.canceled.add(taken.gone.len());
        taken.gone.clear();
        state.metrics.expired.add(taken.expired.len());
        Sender::answer_all(taken.expired.drain(..).map(|request| refused(request.sender, expired())), unsettled);
        state.metrics.shed.add(taken.shed.len());
        Sender::answer_all(taken.shed.drain(..).map(|request| refused(request.sender, too_late())), unsettled);
    }

    /// The next part of a failed batch to run again, without the requests that have expired or whose callers have gone.
    fn next_part(&mut self) -> Option<Retry> {
        let Self { state, parts, unsettled, retried, .. } = self;
        while let Some(part) = parts.front_mut() {
            let (now, mut gone, mut late) = (state.now(), Vec::new(), Vec::new());
            part.remove(|caller| caller.sender.is_gone(), &mut gone);
            part.remove(|caller| caller.deadline.is_some_and(|deadline| deadline <= now), &mut late);
            state.metrics.canceled.add(gone.len());
            state.metrics.expired.add(late.len());
            Sender::answer_all(late.into_iter().map(|(_, caller)| refused(caller.sender, expired())), unsettled);
            if part.len() > 0 {
                return Some(Retry { rows: part.rows(), first: !*retried });
            }
            parts.pop_front();
        }
        None
    }

    /// # Errors
    /// The worker has failed.
    fn retry(&mut self) -> Result<(), J::Error> {
        let Some(part) = self.parts.pop_front() else { unreachable!("there is a part") };
        self.retried = true;
        self.state.metrics.retries.add(1);
        let traced = self.job.is_traced(&self.own).then(|| (Instant::now(), part.rows()));
        self.start(part, traced)
    }

    /// # Errors
    /// The worker has failed.
    fn start_taken(&mut self, reason: FlushReason, capacity: usize) -> Result<(), J::Error> {
        let now = self.state.now();
        let taken = &mut self.taken;
        let waits = taken.batch.iter().map(|queued| now.saturating_sub(queued.arrived));
        let traced = self.job.is_traced(&self.own).then(|| (Instant::now(), taken.rows));
        if let Some((started, _)) = traced {
            let mut times = waits.clone().map(|waited| started.checked_sub(waited).unwrap_or(started)..started);
            self.job.trace_waits(&self.own, &mut times);
        }
        self.state.metrics.started(reason, std::mem::take(&mut taken.rows), capacity, waits);
        self.retried = false;
        let mut requests = self.spare.pop().unwrap_or_default();
        taken.batch.drain(..).for_each(|queued| requests.push(queued));
        self.start(requests, traced)
    }

    /// Starts a batch of these requests.
    ///
    /// # Errors
    /// The worker has failed.
    fn start(&mut self, mut requests: RequestsOf<J>, traced: Option<(Instant, usize)>) -> Result<(), J::Error> {
        let started = self.state.now();
        match self.start_job(&mut requests.inputs) {
            Ok(running) => {
                let slot = self.slots.pop().unwrap_or_else(|| Slot::new(&self.state, self.index));
                let mut batch = InFlight::new(slot, running, requests, started, traced);
                // From now on the future wakes the worker when it has finished; if it already has, the next step polls
                // it.
                self.inconsistent |= batch.poll();
                self.in_flight.push_back(batch);
                Ok(())
            }
            Err(failure) => {
                self.state.not_started(self.index);
                self.fail(requests, &failure)
            }
        }
    }

    fn start_job(&mut self, inputs: &mut [J::Input]) -> Result<J::Running, Failure<J>> {
        let Self { job, own, state, inconsistent, here, .. } = self;
        if *inconsistent {
            let reset = catch_unwind(AssertUnwindSafe(|| job.reset(own)));
            let reset = reset.unwrap_or_else(|_| Err(job_panicked("being reset").into()));
            reset.map_err(|error| (Stage::Reset, error))?;
            state.metrics.prepared.add(1);
            *inconsistent = false;
        }
        let running = catch_unwind(AssertUnwindSafe(|| match here {
            true => job.start_here(own, inputs),
            false => job.start(own, inputs),
        }));
        let running = running.unwrap_or_else(|_| {
            *inconsistent = true;
            Err(job_panicked("starting a batch").into())
        });
        running.map_err(|error| (Stage::Start, error))
    }

    /// Polls the signaled batches, and answers the oldest if it has finished.
    ///
    /// # Errors
    /// The worker has failed.
    fn poll(&mut self) -> Result<(), J::Error> {
        for batch in self.in_flight.iter_mut().filter(|batch| batch.is_signaled()) {
            self.inconsistent |= batch.poll();
        }
        match self.in_flight.pop_front_if(|batch| batch.is_finished()) {
            Some(batch) => self.finish(batch),
            None => Ok(()),
        }
    }

    /// # Errors
    /// The worker has failed.
    fn finish(&mut self, batch: InFlight<J>) -> Result<(), J::Error> {
        let (started, traced) = (batch.started, batch.traced);
        let (slot, mut requests, outcome) = batch.into_parts();
        self.slots.push(slot);
        let Some(outcome) = outcome else { unreachable!("it has finished") };
        let outcome = outcome.map_err(|error| (Stage::Run, error));
        let answered = outcome.and_then(|answers| self.take_answers(answers, requests.len()));
        if let Some((started, rows)) = traced {
            self.job.trace_batch(&self.own, started..Instant::now(), rows);
        }
        let state = &self.state;
        let queue = state.finished(self.index, answered.is_ok());
        state.metrics.served(state.now().saturating_sub(started), queue);
        match answered {
            Ok(()) => {
                let senders = requests.callers.drain(..).map(|caller| caller.sender);
                Sender::answer_all(senders.zip(self.answers.drain(..)), &mut self.unsettled);
                self.put_away(requests);
                Ok(())
            }
            Err(failure) => self.fail(requests, &failure),
        }
    }

    /// Extracts the answers of a batch into `self.answers`: one per request, or none.
    fn take_answers(&mut self, answers: J::Answers, requests: usize) -> Result<(), Failure<J>> {
        let Self { answers: into, inconsistent, .. } = self;
        let taken = catch_unwind(AssertUnwindSafe(|| answers.append_to(into))).unwrap_or_else(|_| {
            *inconsistent = true;
            Err(job_panicked("giving answers").into())
        });
        let taken = taken.and_then(|()| match into.len() {
            count if count == requests => Ok(()),
            count => Err(wrong_count(count, requests).into()),
        });
        taken.map_err(|error| {
            into.clear();
            (Stage::Answers, error)
        })
    }

    /// Handles a failed attempt: its requests fail, unless they are retried in two halves.
    ///
    /// # Errors
    /// The worker has failed.
    fn fail(&mut self, mut requests: RequestsOf<J>, (stage, error): &Failure<J>) -> Result<(), J::Error> {
        let (job, metrics) = (&self.job, &self.state.metrics);
        let again = requests.attempts.is_some();
        let attempts = requests.attempts.get_or_insert_with(|| Attempts::new(requests.callers.len()));
        metrics.failed.add(usize::from(!again));
        let worker_failed = job.worker_failed(error);
        let isolates = *stage != Stage::Reset && !worker_failed && job.isolates(*stage, error);
        match isolate::verdict(isolates, requests.callers.len(), attempts) {
            Verdict::Halve(at) => {
                let rest = requests.split_off(at);
                self.parts.push_front(rest);
                self.parts.push_front(requests);
            }
            Verdict::Fail => {
                metrics.isolated.add(usize::from(again && requests.len() == 1 && isolates));
                let answers = requests.callers.drain(..).map(|caller| (caller.sender, Err(error.clone())));
                Sender::answer_all(answers, &mut self.unsettled);
                self.put_away(requests);
            }
        }
        if worker_failed { Err(error.clone()) } else { Ok(()) }
    }

    /// Keeps the memory of answered requests.
    fn put_away(&mut self, mut requests: RequestsOf<J>) {
        requests.inputs.clear();
        requests.attempts = None;
        if self.spare.len() < SPARE_LISTS {
            self.spare.push(requests);
        }
    }

    /// Takes no more batches. Those in flight complete before it recovers.
    fn fail_worker(&mut self, error: J::Error) {
        self.state.worker_failed(self.index);
        self.failed.get_or_insert(error);
    }

    fn recover(&mut self, error: &J::Error) -> Action {
        self.settle();
        let Self { job, own, .. } = self;
        let recovered = catch_unwind(AssertUnwindSafe(|| job.recover(own, error)));
        match recovered.unwrap_or_else(|_| Err(job_panicked("recovering").into())) {
            Ok(()) => {
                self.inconsistent = false;
                self.state.metrics.reopened.add(1);
                self.state.worker_recovered(self.index);
                Action::Recover
            }
            Err(cause) => {
                tracing::error!("worker {} of {} has failed for good: {error}; {cause}", self.index, self.job.name());
                self.retire(&cause);
                Action::End
            }
        }
    }

    /// Ends permanently. Requests that no other worker will take fail with this error.
    fn retire(&mut self, why: &J::Error) {
        let refusal: Refusal<ReplyOf<J>> = {
            let why = why.clone();
            Arc::new(move || Err(why.clone()))
        };
        let parts = self.parts.drain(..).flat_map(|part| part.callers).map(|caller| caller.sender);
        let stranded = self.state.worker_ended(refusal).into_iter().map(|request| request.sender);
        let answers = parts.chain(stranded).map(|sender| (sender, Err(why.clone())));
        Sender::answer_all(answers, &mut self.unsettled);
        self.settle();
    }

    /// Ends early. All its requests fail with this error.
    fn abandon(&mut self, why: Error) {
        let why = why.into();
        self.settle();
        self.state.worker_failed(self.index);
        let callers = self.in_flight.iter_mut().flat_map(|batch| batch.requests.callers.drain(..));
        let callers = callers.map(|caller| (caller.sender, Err(J::Error::clone(&why))));
        Sender::answer_all(callers, &mut self.unsettled);
        self.retire(&why);
    }
}

impl<J: Job> Drop for WorkerCore<J> {
    fn drop(&mut self) {
        if !self.ended {
            self.abandon(Error::new(ErrorKind::Canceled, "the worker was dropped"));
        }
    }
}

/// The answer of a refused request.
fn refused<R>(sender: Sender<R>, error: Error) -> (Sender<R>, R) {
    let answer = sender.refuse(error);
    (sender, answer)
}

fn wrong_count(answers: usize, requests: usize) -> Error {
    Error::new(ErrorKind::Shape, format!("a job gave {answers} answers to {requests} inputs"))
}
