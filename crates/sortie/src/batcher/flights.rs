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
    front::{Front, Request, Step, expired},
    queue::{Reason, Taken},
    reply::{Address, Desk},
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    submit::Ticket,
};

/// The flights of a device, and what they need.
pub(super) struct Flights<J: Job> {
    front: Arc<Front<J::Input, J::Output>>,
    job: Arc<J>,
    /// Which of the batcher's devices it is.
    who: usize,
    ready: J::Ready,
    /// After what was made on it.
    device: Device,
    under_way: VecDeque<Flight<J::Output>>,
    /// What the job is called.
    name: String,
    /// Rings when a flight has landed.
    bell: Waker,
    /// Kept for their memory.
    taken: Taken<Request<J::Input, J::Output>>,
    addresses: Vec<Vec<Address<J::Output>>>,
    /// Desks of callers who do not know yet that their answers are there.
    owed: Vec<Arc<Desk<J::Output>>>,
    spare: Vec<Waker>,
}

/// A batch under way.
struct Flight<O> {
    ticket: Ticket,
    answers: Answers<O>,
    addresses: Vec<Address<O>>,
    left: Duration,
    /// When it left and with how many rows, where somebody watches.
    watched: Option<(Instant, usize)>,
}

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
        let (taken, addresses, owed, spare) = (Taken::default(), Vec::new(), Vec::new(), Vec::new());
        Self { front, job, who, device, ready, under_way: VecDeque::new(), name, bell, taken, addresses, owed, spare }
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
            let Self { front, who, taken, under_way, owed, .. } = self;
            let landed = || under_way.front().is_some_and(|flight| flight.ticket.is_ready());
            let step = front.next(*who, taken, !owed.is_empty(), landed);
            self.excuse();
            let landed = match step {
                Step::Settle => Ok(()),
                Step::Land => {
                    self.settle();
                    self.under_way.pop_front().map_or(Ok(()), |flight| self.land(flight))
                }
                // First, so that the device has something to do meanwhile.
                Step::Fly(reason, size) => self.fly(reason, size),
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

    /// Answers those who are late, and forgets those who have gone.
    fn excuse(&mut self) {
        let Self { front, taken, owed, .. } = self;
        front.figures.canceled.add(taken.gone.len());
        taken.gone.clear();
        front.figures.expired.add(taken.late.len());
        Address::answer_all(taken.late.drain(..).map(|request| (request.address, Err(expired()))), owed);
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
        let mut inputs = Vec::with_capacity(taken.batch.len());
        let mut addresses = self.addresses.pop().unwrap_or_default();
        for waiting in taken.batch.drain(..) {
            inputs.push(waiting.request.input);
            addresses.push(waiting.request.address);
        }
        match self.submit(inputs) {
            Ok((mut ticket, answers)) => {
                // It rings when it has landed; if it has already, nobody sleeps before having looked.
                drop(Pin::new(&mut ticket).poll(&mut Context::from_waker(&self.bell)));
                self.under_way.push_back(Flight { ticket, answers, addresses, left: now, watched });
                Ok(())
            }
            Err(error) => {
                self.front.stayed(self.who);
                self.fail(addresses, &error)
            }
        }
    }

    fn submit(&mut self, inputs: Vec<J::Input>) -> Result<(Ticket, Answers<J::Output>)> {
        let Self { job, ready, device, .. } = self;
        let flown = catch_unwind(AssertUnwindSafe(|| job.fly(ready, device, inputs)));
        flown.unwrap_or_else(|_| Err(panicked("recording")))
    }

    /// # Errors
    /// The device was lost.
    fn land(&mut self, flight: Flight<J::Output>) -> Result<()> {
        let Flight { ticket, answers, mut addresses, left, watched } = flight;
        let results = ticket.wait().and_then(|()| {
            let results = catch_unwind(AssertUnwindSafe(answers));
            let results = results.unwrap_or_else(|_| Err(panicked("giving answers")))?;
            if results.len() != addresses.len() {
                let message = format!("a job gave {} answers to {} inputs", results.len(), addresses.len());
                return Err(Error::new(ErrorKind::Shape, message));
            }
            Ok(results)
        });
        if let Some((left, rows)) = watched {
            let name = format!("flight of {}", self.name);
            self.device.note("flight", &name, vec![left..Instant::now()], Some(("rows", rows as u64)));
        }
        let front = &self.front;
        front.landed(self.who, results.is_ok());
        front.figures.served(front.now().saturating_sub(left), front.waiting());
        match results {
            Ok(results) => {
                Address::answer_all(addresses.drain(..).zip(results), &mut self.owed);
                self.addresses.push(addresses);
                Ok(())
            }
            Err(error) => self.fail(addresses, &error),
        }
    }

    /// A batch has failed, and with it the requests in it.
    ///
    /// # Errors
    /// The device was lost.
    fn fail(&mut self, mut addresses: Vec<Address<J::Output>>, error: &Error) -> Result<()> {
        self.front.figures.failed.add(1);
        Address::answer_all(addresses.drain(..).map(|address| (address, Err(error.clone()))), &mut self.owed);
        self.addresses.push(addresses);
        if *error.kind() == ErrorKind::DeviceLost { Err(error.clone()) } else { Ok(()) }
    }

    /// Starts afresh on the device that was lost. Should that fail, others have to go on without it.
    fn reopen(&mut self, error: &Error) -> bool {
        self.front.lost(self.who);
        // What else was under way has been lost with it, unless it had landed before.
        while let Some(flight) = self.under_way.pop_front() {
            drop(self.land(flight));
        }
        self.settle();
        let prepared = self.device.reopen().and_then(|device| {
            let ready = catch_unwind(AssertUnwindSafe(|| self.job.prepare(&device)));
            Ok((ready.unwrap_or_else(|_| Err(panicked("preparing")))?, device))
        });
        match prepared {
            Ok((ready, device)) => {
                self.front.figures.reopened.add(1);
                (self.ready, self.device) = (ready, device);
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
        let stranded = self.front.retired(why);
        let answers = stranded.into_iter().map(|request| (request.address, Err(why.clone())));
        Address::answer_all(answers, &mut self.owed);
        self.settle();
    }
}

fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::JobPanicked, format!("a job panicked while {what}"))
}
