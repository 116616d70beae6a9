//! From commands to completion: the submit thread, the wait thread, tickets and readings.
//!
//! Flights leave in the order they were handed over. The submit thread is the only caller of `queue.submit` (a blocking
//! [`Submitter::run`] may take its turn when nothing is queued); the wait thread is the one that sleeps in `poll` for flights that
//! nobody else waits for. At most `in_flight` submissions are under way.
//!
//! [`Line`] is the one lock that they share.

mod completion;
mod exit;
mod flight;
mod line;
mod sync;
mod ticket;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) use completion::Completion;
pub(crate) use flight::{Flight, Hold, Leg, Pins, poisoned};
pub(crate) use ticket::Landing;
pub use ticket::{Reading, Ticket};

use self::line::{Line, Queued};
use crate::{
    device::{Gpu, Lost, Polled},
    error::{Error, ErrorKind, Result},
    memory::Block,
    metrics::{Count, Counters},
};

/// How long one `poll` sleeps before it looks for a lost device or a closed line; no effect on the latency of completion.
const POLL: Duration = Duration::from_millis(100);

/// The one way to a device's queue.
#[derive(Debug)]
pub(crate) struct Submitter {
    gpu: Gpu,
    queue: wgpu::Queue,
    line: Line<Item, Leg, wgpu::SubmissionIndex>,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    exiting: AtomicBool,
}

/// What goes to the queue in order.
#[derive(Debug)]
enum Item {
    Flight(Flight),
    /// A write that takes effect when the view is dropped.
    Write(wgpu::QueueWriteBufferView, Arc<Block>),
    /// Commands that nobody waits for: the zeroing of recycled memory.
    Clear(wgpu::CommandBuffer),
}

impl Queued for Item {
    fn flies(&self) -> bool {
        matches!(self, Self::Flight(_))
    }
}

impl Submitter {
    /// Starts the two threads; they end once the line is closed and empty.
    pub(crate) fn start(
        gpu: Gpu,
        queue: wgpu::Queue,
        in_flight: usize,
        lost: Arc<Lost>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>> {
        let line = Line::new(in_flight);
        let submitter = Arc::new(Self { gpu, queue, line, lost, counters, exiting: AtomicBool::new(false) });
        let spawn = |name: &str, run: fn(&Self)| {
            let submitter = submitter.clone();
            thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    exit::begin();
                    run(&submitter);
                })
                .map_err(|error| Error::internal(format!("the thread {name} did not start")).caused_by(error))
        };
        // Enlisted one by one: should the second not start, closing the line ends the first.
        let started = [("sortie-submit", Self::submit_loop as fn(&Self)), ("sortie-wait", Self::wait_loop)]
            .into_iter()
            .try_for_each(|(name, run)| spawn(name, run).map(|thread| exit::enlist(&submitter, thread)));
        started.inspect_err(|_| submitter.close())?;
        Ok(submitter)
    }

    /// Queues the flights of one batch, in order. Never waits for the device.
    pub(crate) fn push(&self, flights: impl IntoIterator<Item = Flight>) {
        self.line.push(flights.into_iter().map(Item::Flight));
    }

    /// Submits and waits. Goes straight to the queue, without another thread, when nothing is ahead of it.
    pub(crate) fn run(&self, flight: Flight) -> Result<()> {
        let completion = flight.leg.hold.completion.clone();
        let Some(turn) = self.line.take_turn(true) else {
            self.push([flight]);
            return completion.wait();
        };
        let departed = self.depart(flight, true);
        drop(turn);
        if let Some((index, serial)) = departed {
            while !completion.is_done() && !self.attend(&index, serial) {}
        }
        completion.wait()
    }

    /// Writes to a buffer, in order with the flights. What is refused only after it was queued poisons the buffer.
    pub(crate) fn write(&self, view: wgpu::QueueWriteBufferView, block: &Arc<Block>) -> Result<()> {
        let Some(_turn) = self.line.take_turn(false) else {
            self.line.push([Item::Write(view, block.clone())]);
            return Ok(());
        };
        self.apply(view)
    }

    /// Runs commands that nobody waits for, in order with the flights.
    pub(crate) fn clear(&self, commands: wgpu::CommandBuffer) {
        self.line.push([Item::Clear(commands)]);
    }

    /// Nothing more will come: the threads end when all has landed. Never waits for them.
    pub(crate) fn close(&self) {
        self.line.close();
    }

    /// The process is exiting: what is queued is not to start any more, and what is under way lands.
    fn abandon(&self) {
        self.exiting.store(true, Ordering::Relaxed);
        self.line.close();
    }

    fn submit_loop(&self) {
        while let Some((item, turn)) = self.line.next() {
            self.guarded(|| match item {
                Item::Flight(flight) => drop(self.depart(flight, false)),
                Item::Write(view, block) => {
                    if let Err(error) = self.apply(view) {
                        // Nobody waits for it, so the buffer remembers.
                        block.poison(&Block::blame([&block], error));
                    }
                }
                Item::Clear(commands) => self.zero(commands),
            });
            drop(turn);
        }
    }

    /// Our own defects, and wgpu's, must not end a thread that others wait for: the device counts as lost then.
    fn guarded(&self, run: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            self.lost.set("a thread of sortie panicked; please report it");
        }
    }

    /// Lets a write take effect. The caller has the turn.
    fn apply(&self, view: wgpu::QueueWriteBufferView) -> Result<()> {
        let scopes = self.gpu.scopes();
        drop(view);
        scopes.pop(|| "a write".into(), 0).map_err(|error| self.lost.explain(&self.gpu, error))
    }

    fn zero(&self, commands: wgpu::CommandBuffer) {
        let scopes = self.gpu.scopes();
        self.queue.submit([commands]);
        if let Err(error) = scopes.pop(|| "the zeroing of recycled memory".into(), 0) {
            // Old data could show: nothing on this device can be trusted any more.
            self.lost.set(format!("recycled memory could not be zeroed: {error}"));
        }
    }

    /// Submits one flight. The caller has the turn.
    fn depart(&self, flight: Flight, attended: bool) -> Option<(wgpu::SubmissionIndex, u64)> {
        if flight.leg.canceled() {
            return None;
        }
        if let Err(error) = self.open().and_then(|()| flight.leg.check()) {
            flight.leg.fail(&error, false);
            return None;
        }
        let Flight { commands, leg } = flight;
        let scopes = self.gpu.scopes();
        let index = self.queue.submit([commands]);
        if let Err(error) = scopes.pop(|| "a submission".into(), 0) {
            let error = Block::blame(leg.hold.pins.blocks.iter().flatten(), self.lost.explain(&self.gpu, error));
            leg.fail(&error, false);
            return None;
        }
        self.counters.submissions.add(1);
        let serial = self.line.departed(leg, index.clone(), attended);
        Some((index, serial))
    }

    fn open(&self) -> Result<()> {
        if self.exiting.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Canceled, "the process is exiting"));
        }
        self.lost.check()
    }

    fn wait_loop(&self) {
        while let Some((index, serial)) = self.line.unattended() {
            self.guarded(|| {
                self.attend(&index, serial);
            });
        }
    }

    /// Sleeps in `poll` until this flight is done, or a moment has passed; then lands all that is done. True when it is over.
    fn attend(&self, index: &wgpu::SubmissionIndex, serial: u64) -> bool {
        let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(POLL) };
        let outcome = match self.lost.poll(&self.gpu, wait) {
            Polled::Done => Ok(()),
            Polled::Dropped => Err(Error::internal("wgpu dropped the submission without saying why")),
            Polled::Pending if self.lost.check().is_ok() => return false,
            Polled::Pending => Ok(()),
        };
        let lost = self.lost.check();
        let through = if lost.is_ok() { serial } else { u64::MAX };
        for leg in self.line.landed(through) {
            match lost.clone().and_then(|()| outcome.clone()) {
                Ok(()) => self.land(leg),
                Err(error) => leg.fail(&error, true),
            }
        }
        true
    }

    fn land(&self, leg: Leg) {
        // Another thread's poll may be running the callback right now.
        while let Some(returning) = leg.returning()
            && returning.mapped().is_none()
            && self.lost.check().is_ok()
        {
            self.lost.poll(&self.gpu, wgpu::PollType::Poll);
            thread::yield_now();
        }
        if leg.returning().is_some_and(|returning| returning.mapped() == Some(false)) {
            self.lost.set("what a batch read could not be mapped");
        }
        match self.lost.check() {
            Ok(()) => leg.land(),
            Err(error) => leg.fail(&error, true),
        }
    }
}
