//! From commands to completion: the submit thread, the wait thread, tickets and readings.
//!
//! Flights leave in the order they were handed over. The submit thread is the only caller of `queue.submit` (a blocking
//! [`Submitter::run`] may take its turn when nothing is queued); the wait thread is the one that sleeps in `poll` for flights that
//! nobody else waits for. At most `in_flight` submissions are under way.
//!
//! Locks: `Line` is a leaf. It is never held over a call into wgpu, a waker or a landing.

mod completion;
mod exit;
mod flight;
mod lost;
mod sync;
mod ticket;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use smallvec::SmallVec;

pub(crate) use completion::Completion;
pub(crate) use flight::{Flight, Hold, Leg, Pins, poisoned, refused};
pub(crate) use lost::Lost;
pub(crate) use ticket::Landing;
pub use ticket::{Reading, Ticket};

use self::sync::{Condvar, Mutex};
use crate::{
    device::Gpu,
    error::{Error, ErrorKind, Result},
    metrics::{Count, Counters},
};

/// How long one `poll` sleeps before it looks for a lost device or a closed line; no effect on the latency of completion.
const POLL: Duration = Duration::from_millis(100);

/// The one way to a device's queue.
pub(crate) struct Submitter {
    gpu: Gpu,
    queue: wgpu::Queue,
    in_flight: usize,
    line: Mutex<Line>,
    /// Something was queued, landed, or the line was closed.
    submit: Condvar,
    /// A flight has left that the wait thread must see home.
    left: Condvar,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    exiting: AtomicBool,
}

#[derive(Default)]
struct Line {
    queued: VecDeque<Item>,
    flying: VecDeque<Flying>,
    /// Somebody is inside `queue.submit`.
    turn: bool,
    closed: bool,
    /// Flights that have left so far; the serial of the newest.
    departed: u64,
}

/// What goes to the queue in order.
enum Item {
    Flight(Flight),
    /// A write that takes effect when the view is dropped.
    Write(wgpu::QueueWriteBufferView),
    /// Commands that nobody waits for: the zeroing of recycled memory.
    Clear(wgpu::CommandBuffer),
}

struct Flying {
    leg: Leg,
    index: wgpu::SubmissionIndex,
    /// The thread that submitted it waits for it itself.
    attended: bool,
    serial: u64,
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
        let submitter = Arc::new(Self {
            gpu,
            queue,
            in_flight: in_flight.max(1),
            line: Mutex::default(),
            submit: Condvar::new(),
            left: Condvar::new(),
            lost,
            counters,
            exiting: AtomicBool::new(false),
        });
        let spawn = |name: &str, run: fn(&Self)| {
            let submitter = submitter.clone();
            thread::Builder::new()
                .name(name.into())
                .spawn(move || run(&submitter))
                .map_err(|error| Error::internal(format!("the thread {name} did not start")).caused_by(error))
        };
        let threads = vec![spawn("sortie-submit", Self::submit_loop)?, spawn("sortie-wait", Self::wait_loop)?];
        exit::enlist(&submitter, threads);
        Ok(submitter)
    }

    /// Queues the flights of one batch, in order. Never waits for the device.
    pub(crate) fn push(&self, flights: impl IntoIterator<Item = Flight>) {
        let mut line = self.line.lock();
        line.queued.extend(flights.into_iter().map(Item::Flight));
        drop(line);
        self.submit.notify_one();
    }

    /// Submits and waits. Goes straight to the queue, without another thread, when nothing is ahead of it.
    pub(crate) fn run(&self, flight: Flight) -> Result<()> {
        let completion = flight.leg.hold.completion.clone();
        if !self.take_turn(true) {
            self.push([flight]);
            return completion.wait();
        }
        let departed = self.depart(flight, true);
        self.end_turn();
        if let Some((index, serial)) = departed {
            while !completion.is_done() && !self.attend(&index, serial) {}
        }
        completion.wait()
    }

    /// Writes to a buffer, in order with the flights.
    pub(crate) fn write(&self, view: wgpu::QueueWriteBufferView) {
        if self.take_turn(false) {
            drop(view);
            self.end_turn();
        } else {
            self.line.lock().queued.push_back(Item::Write(view));
            self.submit.notify_one();
        }
    }

    /// Runs commands that nobody waits for, in order with the flights.
    pub(crate) fn clear(&self, commands: wgpu::CommandBuffer) {
        self.line.lock().queued.push_back(Item::Clear(commands));
        self.submit.notify_one();
    }

    /// Nothing more will come: the threads end when all has landed. Never waits for the device: when something is still under way, the
    /// threads see it home by themselves.
    pub(crate) fn close(&self) {
        let mut line = self.line.lock();
        line.closed = true;
        let idle = line.queued.is_empty() && line.flying.is_empty() && !line.turn;
        drop(line);
        self.submit.notify_all();
        self.left.notify_all();
        if idle {
            // The last flight may have landed on one of the threads, which then closes the line itself.
            let others = exit::dismiss(self).into_iter().filter(|other| other.thread().id() != thread::current().id());
            others.for_each(|other| drop(other.join()));
        }
    }

    /// The process is exiting: what is queued is not to start any more, and what is under way lands.
    fn abandon(&self) {
        self.exiting.store(true, Ordering::Relaxed);
        self.line.lock().closed = true;
        self.submit.notify_all();
        self.left.notify_all();
    }

    /// Takes the submit thread's place for a moment, if nobody is ahead.
    fn take_turn(&self, flies: bool) -> bool {
        let mut line = self.line.lock();
        let free = line.queued.is_empty() && !line.turn && !(flies && line.flying.len() >= self.in_flight);
        if free {
            line.turn = true;
        }
        free
    }

    fn end_turn(&self) {
        let mut line = self.line.lock();
        line.turn = false;
        let more = !line.queued.is_empty() || line.closed;
        drop(line);
        if more {
            self.submit.notify_one();
        }
    }

    fn submit_loop(&self) {
        while let Some(item) = self.next() {
            match item {
                Item::Flight(flight) => drop(self.depart(flight, false)),
                Item::Write(view) => drop(view),
                Item::Clear(commands) => {
                    let scopes = self.gpu.scopes();
                    self.queue.submit([commands]);
                    if let Err(error) = scopes.pop(|| "the zeroing of recycled memory".into(), 0) {
                        // Old data could show: nothing on this device can be trusted any more.
                        self.lost.set(format!("recycled memory could not be zeroed: {error}"));
                    }
                }
            }
            self.end_turn();
        }
    }

    /// The next item, with the turn taken; `None` when the line is closed and empty.
    fn next(&self) -> Option<Item> {
        let mut line = self.line.lock();
        loop {
            let room = line.flying.len() < self.in_flight;
            let ready = line.queued.front().is_some_and(|item| room || !matches!(item, Item::Flight(_)));
            if ready && !line.turn {
                line.turn = true;
                return line.queued.pop_front();
            }
            if line.closed && line.queued.is_empty() && !line.turn {
                // The wait thread may be asleep waiting for what will not come.
                self.left.notify_all();
                return None;
            }
            self.submit.wait(&mut line);
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
            let error = refused(self.lost.explain(&self.gpu, error), &leg.hold.pins.blocks);
            leg.fail(&error, false);
            return None;
        }
        self.counters.submissions.add(1);
        let mut line = self.line.lock();
        line.departed += 1;
        let serial = line.departed;
        line.flying.push_back(Flying { leg, index: index.clone(), attended, serial });
        drop(line);
        if !attended {
            self.left.notify_one();
        }
        Some((index, serial))
    }

    fn open(&self) -> Result<()> {
        if self.exiting.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Canceled, "the process is exiting"));
        }
        self.lost.check()
    }

    fn wait_loop(&self) {
        while let Some((index, serial)) = self.unattended() {
            self.attend(&index, serial);
        }
    }

    /// The oldest flight that nobody waits for; `None` when the line is closed and empty.
    fn unattended(&self) -> Option<(wgpu::SubmissionIndex, u64)> {
        let mut line = self.line.lock();
        loop {
            if let Some(flying) = line.flying.iter().find(|flying| !flying.attended) {
                return Some((flying.index.clone(), flying.serial));
            }
            if line.closed && line.queued.is_empty() && !line.turn {
                return None;
            }
            self.left.wait(&mut line);
        }
    }

    /// Sleeps in `poll` until this flight is done, or a moment has passed; then lands all that is done. True when it is over.
    fn attend(&self, index: &wgpu::SubmissionIndex, serial: u64) -> bool {
        let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(POLL) };
        match self.gpu.poll(wait) {
            Ok(_) => {}
            Err(wgpu::PollError::Timeout) if self.lost.check().is_ok() => return false,
            Err(wgpu::PollError::Timeout) => {}
            // wgpu does not know the submission it gave us: it dropped it, as it does once the device is gone.
            Err(wgpu::PollError::WrongSubmissionIndex(..)) => self.lost.set("a submission was dropped by wgpu"),
        }
        let through = if self.lost.check().is_ok() { serial } else { u64::MAX };
        for flying in self.landed(through) {
            self.land(flying.leg);
        }
        true
    }

    /// Takes what is done off the line and lets the next ones go.
    fn landed(&self, through: u64) -> SmallVec<[Flying; 2]> {
        let mut line = self.line.lock();
        let done = line.flying.iter().take_while(|flying| flying.serial <= through).count();
        let landed = line.flying.drain(..done).collect();
        let more = !line.queued.is_empty();
        drop(line);
        if more {
            self.submit.notify_one();
        }
        landed
    }

    fn land(&self, leg: Leg) {
        // Another thread's poll may be running the callback right now.
        while let Some(returning) = leg.returning()
            && returning.mapped().is_none()
            && self.lost.check().is_ok()
        {
            drop(self.gpu.poll(wgpu::PollType::Poll));
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

impl std::fmt::Debug for Submitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = self.line.lock();
        f.debug_struct("Submitter")
            .field("queued", &line.queued.len())
            .field("flying", &line.flying.len())
            .finish_non_exhaustive()
    }
}
