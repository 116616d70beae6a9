//! The thread of a device: takes batches, flies them, and answers.

use std::{
    collections::VecDeque,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Wake, Waker},
    time::{Duration, Instant},
};

use super::{
    Answers, Job,
    front::{Front, Request, Retry, Step, expired, too_late},
    isolate::{self, Attempts, Stage, Verdict},
    queue::{Reason, Taken},
    reply::{Address, Desk},
    requests::Requests,
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    finish::Ticket,
};

/// Lists of requests that are kept for their memory: more than are under way, and few of the parts that a failed batch is cut into.
const EMPTIED: usize = 8;

/// The flights of a device, and what they need.
pub(super) struct Flights<J: Job> {
    front: Arc<Front<J::Input, J::Output>>,
    job: Arc<J>,
    /// Which of the batcher's devices it is.
    who: usize,
    /// `None` after a panic of the job, which may have left it inconsistent: it is prepared again.
    ready: Option<J::Ready>,
    /// After what was made on it.
    device: Device,
    under_way: VecDeque<Flight<J::Input, J::Output>>,
    /// Parts of failed batches that are run again, the next one first.
    parts: VecDeque<Requests<J::Input, J::Output>>,
    /// The last attempt was one with such a part: a batch from the queue goes before the next.
    retried: bool,
    /// What the job is called.
    name: String,
    /// Rings when a flight has landed.
    bell: Waker,
    /// Kept for their memory.
    taken: Taken<Request<J::Input, J::Output>>,
    /// At most [`EMPTIED`].
    emptied: Vec<Requests<J::Input, J::Output>>,
    /// Desks of callers who do not know yet that their answers are there.
    owed: Vec<Arc<Desk<J::Output>>>,
    spare: Vec<Waker>,
}

/// A batch under way.
struct Flight<I, O> {
    ticket: Ticket,
    answers: Answers<O>,
    requests: Requests<I, O>,
    left: Duration,
    /// When it left and with how many rows, where somebody watches.
    watched: Option<(Instant, usize)>,
}

/// Where and with what an attempt failed.
type Failure = (Stage, Error);

/// Wakes the thread of a device.
struct Bell<I, O> {
    front: Weak<Front<I, O>>,
    who: usize,
}

impl<I: Send, O: Send> Wake for Bell<I, O> {
    fn wake(self: Arc<Self>) {
        if let Some(front) = self.front.upgrade() {
            front.ring(self.who);
        }
    }
}

impl<J: Job> Flights<J> {
    pub(super) fn new(
        front: Arc<Front<J::Input, J::Output>>,
        job: Arc<J>,
        who: usize,
        device: Device,
        ready: J::Ready,
        name: String,
    ) -> Self {
        let bell = Waker::from(Arc::new(Bell { front: Arc::downgrade(&front), who }));
        Self {
            front,
            job,
            who,
            ready: Some(ready),
            device,
            under_way: VecDeque::new(),
            parts: VecDeque::new(),
            retried: false,
            name,
            bell,
            taken: Taken::default(),
            emptied: Vec::new(),
            owed: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Until the batcher is closed and all have their answers, or the device is lost for good.
    pub(super) fn run(mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {
            // What a job does is caught where it does it; this is an input or an answer that panicked when it was dropped. Nobody is left waiting.
            self.settle();
            self.front.lost(self.who);
            self.retire(&panicked("dropping what it was given"));
        }
    }

    fn work(&mut self) {
        loop {
            let retry = self.next_part();
            let Self { front, who, taken, under_way, owed, .. } = self;
            let landed = || under_way.front().is_some_and(|flight| flight.ticket.is_ready());
            let step = front.next(*who, taken, !owed.is_empty(), retry, landed);
            self.excuse();
            let landed = match step {
                Step::Settle => Ok(()),
                Step::Land => {
                    self.settle();
                    self.under_way.pop_front().map_or(Ok(()), |flight| self.land(flight))
                }
                // First, so that the device has something to do meanwhile.
                Step::Fly(reason, size) => self.fly(reason, size),
                Step::Retry => self.retry(),
                Step::End => return self.settle(),
            };
            if step != Step::Land {
                self.settle();
            }
            if let Err(lost) = landed
                && !self.reopen(&lost)
            {
                return;
            }
        }
    }

    /// Wakes everybody whose answer is there.
    fn settle(&mut self) {
        let Self { owed, spare, .. } = self;
        owed.drain(..).for_each(|desk| desk.settle(spare));
    }

    /// Answers those who are late or would be, and forgets those who have gone.
    fn excuse(&mut self) {
        let Self { front, taken, owed, .. } = self;
        front.figures.canceled.add(taken.gone.len());
        taken.gone.clear();
        front.figures.expired.add(taken.late.len());
        Address::answer_all(taken.late.drain(..).map(|request| (request.address, Err(expired()))), owed);
        front.figures.shed.add(taken.shed.len());
        Address::answer_all(taken.shed.drain(..).map(|request| (request.address, Err(too_late()))), owed);
    }

    /// The part of a failed batch that is run again next, without the requests that have expired or whose callers have gone.
    fn next_part(&mut self) -> Option<Retry> {
        let Self { front, parts, owed, retried, .. } = self;
        while let Some(part) = parts.front_mut() {
            let (now, mut gone, mut late) = (front.now(), Vec::new(), Vec::new());
            part.take_out(|caller| caller.address.is_gone(), &mut gone);
            part.take_out(|caller| caller.deadline.is_some_and(|deadline| deadline <= now), &mut late);
            front.figures.canceled.add(gone.len());
            front.figures.expired.add(late.len());
            Address::answer_all(late.into_iter().map(|(_, caller)| (caller.address, Err(expired()))), owed);
            if part.len() > 0 {
                return Some(Retry { rows: part.rows(), first: !*retried });
            }
            parts.pop_front();
        }
        None
    }

    /// # Errors
    /// The device was lost.
    fn retry(&mut self) -> Result<()> {
        let Some(part) = self.parts.pop_front() else { unreachable!("there is a part") };
        self.retried = true;
        self.front.figures.retries.add(1);
        let watched = self.device.is_watched().then(|| (Instant::now(), part.rows()));
        self.start(part, watched)
    }

    /// # Errors
    /// The device was lost.
    fn fly(&mut self, reason: Reason, size: usize) -> Result<()> {
        let now = self.front.now();
        let taken = &mut self.taken;
        let waits = taken.batch.iter().map(|waiting| now.saturating_sub(waiting.arrived));
        let watched = self.device.is_watched().then(|| (Instant::now(), taken.rows));
        if let Some((left, _)) = watched {
            let name = format!("{} waits", self.name);
            let times = waits.clone().map(|waited| left.checked_sub(waited).unwrap_or(left)..left);
            self.device.note("queue", &name, times.collect(), None);
        }
        self.front.figures.left(reason, [std::mem::take(&mut taken.rows), size], waits);
        self.retried = false;
        let mut requests = self.emptied.pop().unwrap_or_default();
        taken.batch.drain(..).for_each(|waiting| requests.push(waiting));
        self.start(requests, watched)
    }

    /// Runs the job for some requests.
    ///
    /// # Errors
    /// The device was lost.
    fn start(&mut self, requests: Requests<J::Input, J::Output>, watched: Option<(Instant, usize)>) -> Result<()> {
        let left = self.front.now();
        match self.submit(&requests.inputs) {
            Ok((mut ticket, answers)) => {
                // It rings when it has landed; if it has already, nobody sleeps before having looked.
                drop(Pin::new(&mut ticket).poll(&mut Context::from_waker(&self.bell)));
                self.under_way.push_back(Flight { ticket, answers, requests, left, watched });
                Ok(())
            }
            Err(failure) => {
                self.front.stayed(self.who);
                self.fail(requests, &failure)
            }
        }
    }

    fn submit(&mut self, inputs: &[J::Input]) -> std::result::Result<(Ticket, Answers<J::Output>), Failure> {
        let Self { job, ready, device, front, .. } = self;
        let prepared = match ready {
            Some(prepared) => prepared,
            None => {
                let prepared = prepare(&**job, device).map_err(|error| (Stage::Prepare, error))?;
                front.figures.prepared.add(1);
                ready.insert(prepared)
            }
        };
        let flown = catch_unwind(AssertUnwindSafe(|| job.fly(prepared, device, inputs)));
        let flown = flown.unwrap_or_else(|_| {
            discard(ready);
            Err(panicked("recording"))
        });
        flown.map_err(|error| (Stage::Start, error))
    }

    /// # Errors
    /// The device was lost.
    fn land(&mut self, flight: Flight<J::Input, J::Output>) -> Result<()> {
        let Flight { ticket, answers, mut requests, left, watched } = flight;
        let ran = ticket.wait().map_err(|error| (Stage::Execution, error));
        let results = ran.and_then(|()| self.take_answers(answers, requests.len()));
        if let Some((left, rows)) = watched {
            let name = format!("flight of {}", self.name);
            self.device.note("flight", &name, vec![left..Instant::now()], Some(("rows", rows as u64)));
        }
        let front = &self.front;
        front.landed(self.who, results.is_ok());
        front.figures.served(front.now().saturating_sub(left), front.waiting());
        match results {
            Ok(results) => {
                let addresses = requests.callers.drain(..).map(|caller| caller.address);
                Address::answer_all(addresses.zip(results), &mut self.owed);
                self.put_away(requests);
                Ok(())
            }
            Err(failure) => self.fail(requests, &failure),
        }
    }

    /// The answers of a batch that has run, one for each request.
    fn take_answers(
        &mut self,
        answers: Answers<J::Output>,
        requests: usize,
    ) -> std::result::Result<Vec<Result<J::Output>>, Failure> {
        let results = catch_unwind(AssertUnwindSafe(answers)).unwrap_or_else(|_| {
            discard(&mut self.ready);
            Err(panicked("giving answers"))
        });
        match results {
            Ok(results) if results.len() != requests => {
                let message = format!("a job gave {} answers to {requests} inputs", results.len());
                Err((Stage::Answers, Error::new(ErrorKind::Shape, message)))
            }
            results => results.map_err(|error| (Stage::Answers, error)),
        }
    }

    /// An attempt has failed, and with it the requests in it, unless they are tried again in two halves.
    ///
    /// # Errors
    /// The device was lost.
    fn fail(&mut self, mut requests: Requests<J::Input, J::Output>, failure: &Failure) -> Result<()> {
        let ((stage, error), figures) = (failure, &self.front.figures);
        let again = requests.attempts.is_some();
        let attempts = requests.attempts.get_or_insert_with(|| Attempts::new(requests.callers.len()));
        figures.failed.add(usize::from(!again));
        match isolate::verdict(*stage, error.kind(), requests.callers.len(), attempts) {
            Verdict::Halve(at) => {
                let rest = requests.split_off(at);
                self.parts.push_front(rest);
                self.parts.push_front(requests);
            }
            Verdict::Fail => {
                let alone = again && requests.len() == 1 && isolate::is_of_an_input(*stage, error.kind());
                figures.isolated.add(usize::from(alone));
                let answers = requests.callers.drain(..).map(|caller| (caller.address, Err(error.clone())));
                Address::answer_all(answers, &mut self.owed);
                self.put_away(requests);
            }
        }
        if *error.kind() == ErrorKind::DeviceLost { Err(error.clone()) } else { Ok(()) }
    }

    /// Keeps the memory of requests that have been answered.
    fn put_away(&mut self, mut requests: Requests<J::Input, J::Output>) {
        requests.inputs.clear();
        requests.attempts = None;
        if self.emptied.len() < EMPTIED {
            self.emptied.push(requests);
        }
    }

    /// Starts afresh on the device that was lost. Should that fail, others have to go on without it.
    fn reopen(&mut self, error: &Error) -> bool {
        self.front.lost(self.who);
        // What else was under way has been lost with it, unless it had landed before.
        while let Some(flight) = self.under_way.pop_front() {
            drop(self.land(flight));
        }
        self.settle();
        let prepared = self.device.reopen().and_then(|device| Ok((prepare(&*self.job, &device)?, device)));
        match prepared {
            Ok((ready, device)) => {
                self.front.figures.reopened.add(1);
                (self.ready, self.device) = (Some(ready), device);
                self.front.returned(self.who);
                true
            }
            Err(cause) => {
                tracing::error!("{} is lost to a batcher: {error}; {cause}", self.device.info());
                self.retire(&cause);
                false
            }
        }
    }

    /// There will be no more flights. Whoever waits for nobody else hears why.
    fn retire(&mut self, why: &Error) {
        let parts = self.parts.drain(..).flat_map(|part| part.callers).map(|caller| caller.address);
        let stranded = self.front.retired(why).into_iter().map(|request| request.address);
        let answers = parts.chain(stranded).map(|address| (address, Err(why.clone())));
        Address::answer_all(answers, &mut self.owed);
        self.settle();
    }
}

/// Has the job prepare, for a device that it was prepared for before.
fn prepare<J: Job>(job: &J, device: &Device) -> Result<J::Ready> {
    let ready = catch_unwind(AssertUnwindSafe(|| job.prepare(device)));
    ready.unwrap_or_else(|_| Err(panicked("preparing")))
}

/// Drops what a job had when it panicked. It may be inconsistent, so a panic of its drop is the job's, too.
fn discard<R>(ready: &mut Option<R>) {
    let left = ready.take();
    drop(catch_unwind(AssertUnwindSafe(|| drop(left))));
}

fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::JobPanicked, format!("a job panicked while {what}"))
}
