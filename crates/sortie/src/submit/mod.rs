//! From commands to completion: the submit thread, the wait thread, tickets and readings.
//!
//! Flights leave in the order they were handed over. The submit thread is the only caller of `queue.submit` (a blocking
//! [`Submitter::run`] may take its turn when nothing is queued); the wait thread is the one that sleeps in `poll` for flights that
//! nobody else waits for. At most `in_flight` submissions are under way.
//!
//! On the built-in CPU whoever has the turn runs the flight there and then: it lands before the turn ends, and there is no wait thread.
//!
//! [`Line`] is the one lock that they share.

mod completion;
mod departure;
mod exit;
mod flight;
mod line;
mod sync;
mod ticket;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

pub(crate) use completion::Completion;
pub(crate) use departure::{Departure, Outbound};
pub(crate) use exit::{begin, see_off};
pub(crate) use flight::{Flight, Hold, Leg, Logged, Pins, poisoned};
use parking_lot::Mutex;
use smallvec::SmallVec;
pub(crate) use ticket::Landing;
pub use ticket::{Readable, Reading, Ticket};

use self::{
    completion::Wakers,
    line::{Line, Queued, Turn},
};
use crate::{
    device::{Gpu, Lost, Polled},
    encode::{Commands, Fence, Frozen},
    error::{Error, ErrorKind, Result},
    memory::{Block, Words},
    metrics::{Count, Counters},
    policy::{Costs, Effort},
};

/// How long one `poll` sleeps before it looks for a lost device or a closed line; no effect on the latency of completion.
const POLL: Duration = Duration::from_millis(100);

/// The one way to a device's queue.
#[derive(Debug)]
pub(crate) struct Submitter {
    queue: Queue,
    line: Line<Item, Leg, Mark>,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    costs: Arc<Costs>,
    exiting: AtomicBool,
    /// Whether somebody else has the queue, too. Locked while it is used past wgpu.
    shared: Mutex<bool>,
    /// Whether wgpu has writes that it has not submitted.
    writes: AtomicBool,
    /// The submit thread.
    runner: OnceLock<ThreadId>,
    /// Whether a flight has landed.
    landed: AtomicBool,
}

/// Where flights go.
#[derive(Debug)]
pub(crate) enum Queue {
    Wgpu {
        gpu: Gpu,
        queue: wgpu::Queue,
    },
    /// The host runs them itself.
    Cpu,
}

/// What a flight under way is known by.
#[derive(Clone, Debug)]
enum Mark {
    Wgpu(wgpu::SubmissionIndex),
    /// Past wgpu.
    Direct(Arc<Frozen>, Fence),
}

/// What has become of a flight that left.
enum Departed {
    /// It is under way.
    Flying(Mark, u64),
    /// It is over, well or not.
    Over(Wakers),
}

/// What goes to the queue in order.
#[derive(Debug)]
enum Item {
    Flight(Flight),
    /// A write that takes effect when the view is dropped.
    Write(wgpu::QueueWriteBufferView, Arc<Block>),
    /// A write to the host's own memory.
    Store {
        block: Arc<Block>,
        start: u64,
        data: Box<[u8]>,
    },
    /// Commands that nobody waits for: the zeroing of recycled memory.
    Clear(wgpu::CommandBuffer),
}

impl Queued for Item {
    fn flies(&self) -> bool {
        matches!(self, Self::Flight(_))
    }
}

impl Submitter {
    /// Starts the threads; they end once the line is closed and empty.
    pub(crate) fn start(
        queue: Queue,
        in_flight: usize,
        lost: Arc<Lost>,
        counters: Arc<Counters>,
        costs: Arc<Costs>,
    ) -> Result<Arc<Self>> {
        let line = Line::new(in_flight);
        let waits = matches!(queue, Queue::Wgpu { .. });
        let submitter = Arc::new(Self {
            queue,
            line,
            lost,
            counters,
            costs,
            exiting: AtomicBool::new(false),
            shared: Mutex::new(false),
            writes: AtomicBool::new(false),
            runner: OnceLock::new(),
            landed: AtomicBool::new(false),
        });
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
            .take(1 + usize::from(waits))
            .try_for_each(|(name, run)| spawn(name, run).map(|thread| exit::enlist(&submitter, thread)));
        started.inspect_err(|_| submitter.close())?;
        Ok(submitter)
    }

    /// Queues flights, in order. Never waits for the device.
    pub(crate) fn push(&self, flights: impl IntoIterator<Item = Flight>) {
        self.line.push(flights.into_iter().map(Item::Flight));
    }

    /// Tells whoever waits for a batch what has become of it so far: it is on its way, or it is not.
    pub(crate) fn announce(&self, outcome: Result<Outbound>, completion: &Completion) -> Result<Outbound> {
        match &outcome {
            Ok(outbound) => {
                completion.submitted();
                self.counters.batches.add(1);
                if let Outbound::Nothing = outbound {
                    completion.finish(Ok(()));
                }
            }
            Err(error) => completion.finish(Err(error.clone())),
        }
        // What has yet to leave is published when it lands.
        if !matches!(outcome, Ok(Outbound::Ready(_))) {
            self.counters.publish();
        }
        outcome
    }

    /// Hands a batch over. Never waits for the device.
    pub(crate) fn send(&self, outbound: Outbound) {
        if let Outbound::Ready(flight) = outbound {
            self.push([flight]);
        }
    }

    /// Submits a batch and waits.
    pub(crate) fn finish(&self, outbound: Outbound, completion: &Completion) -> Result<()> {
        match outbound {
            Outbound::Ready(flight) => self.run(flight),
            Outbound::Nothing | Outbound::Gone => self.sit_out(completion),
        }
    }

    /// Waits for what stands in line. A waker of ours that does so has the only thread of the built-in CPU that would run it: then it is run here.
    fn sit_out(&self, completion: &Completion) -> Result<()> {
        if matches!(self.queue, Queue::Cpu) && self.runner.get() == Some(&thread::current().id()) {
            while !completion.is_done()
                && let Some((item, turn)) = self.line.next()
            {
                self.attend_turn(item, turn);
            }
        }
        completion.wait()
    }

    /// Submits and waits. Goes straight to the queue, without another thread, when nothing is ahead of it.
    pub(crate) fn run(&self, flight: Flight) -> Result<()> {
        let completion = flight.leg.hold.completion.clone();
        let Some(turn) = self.line.take_turn(true) else {
            self.push([flight]);
            return self.sit_out(&completion);
        };
        let departed = self.depart(flight, true);
        drop(turn);
        match departed {
            Departed::Flying(index, serial) => while !completion.is_done() && !self.attend(&index, serial) {},
            Departed::Over(wakers) => wakers.wake(),
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

    /// Writes to the host's own memory, in order with the flights.
    pub(crate) fn store(&self, block: &Arc<Block>, words: &Words, start: u64, data: &[u8]) {
        match self.line.take_turn(false) {
            Some(_turn) => words.write(start, data),
            None => self.line.push([Item::Store { block: block.clone(), start, data: data.into() }]),
        }
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
        self.runner.get_or_init(|| thread::current().id());
        while let Some((item, turn)) = self.line.next() {
            self.attend_turn(item, turn);
        }
    }

    fn attend_turn(&self, item: Item, turn: Turn<'_, Item, Leg, Mark>) {
        let over = self.guarded(|| self.turn(item));
        drop(turn);
        if let Some(wakers) = over {
            wakers.wake();
        }
    }

    /// What one turn of the submit thread is for.
    fn turn(&self, item: Item) -> Wakers {
        match item {
            Item::Flight(flight) => match self.depart(flight, false) {
                Departed::Over(wakers) => return wakers,
                Departed::Flying(..) => {}
            },
            Item::Write(view, block) => {
                if let Err(error) = self.apply(view) {
                    // Nobody waits for it, so the buffer remembers.
                    block.poison(&Block::blame([&block], error));
                }
            }
            Item::Store { block, start, data } => block.words().write(start, &data),
            Item::Clear(commands) => self.zero(commands),
        }
        Wakers::default()
    }

    /// Our own defects, and wgpu's, must not end a thread that others wait for: the device counts as lost then.
    fn guarded<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        let outcome = catch_unwind(AssertUnwindSafe(run));
        if outcome.is_err() {
            self.lost.set("a thread of sortie panicked; please report it");
        }
        outcome.ok()
    }

    /// Lets a write take effect. The caller has the turn.
    fn apply(&self, view: wgpu::QueueWriteBufferView) -> Result<()> {
        let (gpu, _) = self.wgpu();
        let scopes = gpu.scopes();
        drop(view);
        self.writes.store(true, Ordering::Relaxed);
        scopes.pop(|| "a write".into(), 0).map_err(|error| self.lost.explain(gpu, error))
    }

    fn zero(&self, commands: wgpu::CommandBuffer) {
        let (gpu, queue) = self.wgpu();
        let scopes = gpu.scopes();
        queue.submit([commands]);
        if let Err(error) = scopes.pop(|| "the zeroing of recycled memory".into(), 0) {
            // Old data could show: nothing on this device can be trusted any more.
            self.lost.set(format!("recycled memory could not be zeroed: {error}"));
        }
    }

    /// Submits one flight, or runs it. The caller has the turn.
    fn depart(&self, flight: Flight, attended: bool) -> Departed {
        let Flight { commands, leg } = flight;
        let _span = tracing::debug_span!(target: "sortie", "submit", part = leg.part, last = leg.last).entered();
        let leg = match leg.begin() {
            Ok(leg) => leg,
            Err(wakers) => return Departed::Over(wakers),
        };
        if let Err(error) = self.open().and_then(|()| leg.check()) {
            return Departed::Over(leg.fail(&error, false));
        }
        match commands {
            Commands::Wgpu(commands) => self.submit([commands], leg, attended),
            Commands::Native(commands) => self.submit(commands, leg, attended),
            Commands::Direct(frozen, part) => self.launch(&frozen, part, leg, attended),
            Commands::Refused(error) => Departed::Over(leg.fail(&error, false)),
            Commands::Cpu(work) => {
                self.counters.submissions.add(1);
                let (blocks, canceled) = (leg.hold.blocks(), leg.hold.completion.canceled());
                let start = Instant::now();
                // It may be the caller's own thread, which a defect of ours must not take down.
                self.counters.in_flight.add(1);
                let ran = catch_unwind(AssertUnwindSafe(|| work.run(blocks, canceled)));
                self.counters.in_flight.sub(1);
                let ran = ran.unwrap_or_else(|_| Err(Error::internal("the built-in CPU panicked; please report it")));
                // Its locks are free by now. What it leaves behind is settled before the next one's turn.
                Departed::Over(match ran {
                    Ok(()) => {
                        leg.log_left(start);
                        let time = start.elapsed();
                        if let Some(effort) = &leg.effort {
                            self.costs.took(effort, time, leg.hold.logged.is_some());
                        }
                        self.watch(&leg, time);
                        leg.land(|| self.counters.publish())
                    }
                    Err(error) => {
                        self.counters.publish();
                        leg.fail(&error, true)
                    }
                })
            }
        }
    }

    fn submit(
        &self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        mut leg: Leg,
        attended: bool,
    ) -> Departed {
        let (gpu, queue) = self.wgpu();
        let scopes = gpu.scopes();
        leg.left = Some(Instant::now());
        self.writes.store(false, Ordering::Relaxed);
        let index = Mark::Wgpu(queue.submit(commands));
        if let Err(error) = scopes.pop(|| "a submission".into(), 0) {
            let error = Block::blame(leg.hold.blocks().iter().flatten(), self.lost.explain(gpu, error));
            return Departed::Over(leg.fail(&error, false));
        }
        self.counters.submissions.add(1);
        leg.left.inspect(|left| leg.log_left(*left));
        self.counters.in_flight.add(1);
        let serial = self.line.departed(leg, index.clone(), attended);
        Departed::Flying(index, serial)
    }

    /// From now on somebody else may use the queue.
    pub(crate) fn share_queue(&self) {
        *self.shared.lock() = true;
    }

    /// Submits a part of a replay past wgpu, unless somebody else may be using the queue.
    fn launch(&self, frozen: &Arc<Frozen>, part: usize, mut leg: Leg, attended: bool) -> Departed {
        let (gpu, queue) = self.wgpu();
        let shared = self.shared.lock();
        if *shared {
            drop(shared);
            return self.submit([frozen.commands(gpu, part)], leg, attended);
        }
        let flushed = match self.writes.swap(false, Ordering::Relaxed) {
            true => {
                let scopes = gpu.scopes();
                queue.submit([]);
                scopes.pop(|| "writes".into(), 0).map_err(|error| self.lost.explain(gpu, error))
            }
            false => Ok(()),
        };
        leg.left = Some(Instant::now());
        let launched = flushed.and_then(|()| frozen.launch(part));
        drop(shared);
        match launched {
            Ok(fence) => {
                self.counters.submissions.add(1);
                self.counters.in_flight.add(1);
                leg.fence = Some(fence);
                let mark = Mark::Direct(frozen.clone(), fence);
                let serial = self.line.departed(leg, mark.clone(), attended);
                Departed::Flying(mark, serial)
            }
            Err(error) => {
                if *error.kind() == ErrorKind::DeviceLost {
                    self.lost.set(error.to_string());
                }
                Departed::Over(leg.fail(&error, false))
            }
        }
    }

    fn wgpu(&self) -> (&Gpu, &wgpu::Queue) {
        match &self.queue {
            Queue::Wgpu { gpu, queue } => (gpu, queue),
            Queue::Cpu => unreachable!("nothing of wgpu's comes to the built-in CPU"),
        }
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
    fn attend(&self, mark: &Mark, serial: u64) -> bool {
        let mut pending = false;
        let outcome = match self.poll(mark) {
            Polled::Done => Ok(()),
            Polled::Dropped => Err(Error::internal("wgpu dropped the submission without saying why")),
            Polled::Pending if self.lost.check().is_ok() => return false,
            Polled::Pending => {
                pending = true;
                Ok(())
            }
        };
        let lost = self.lost.check();
        let through = if lost.is_ok() { serial } else { u64::MAX };
        let now = Instant::now();
        let legs = self.line.landed(through);
        self.counters.in_flight.sub(legs.len() as u64);
        if let Some(left) = legs.first().and_then(|leg| leg.left).filter(|_| lost.is_ok() && outcome.is_ok()) {
            let efforts: SmallVec<[&Effort; 2]> = legs.iter().filter_map(|leg| leg.effort.as_deref()).collect();
            let logged = legs.iter().any(|leg| leg.hold.logged.is_some());
            let time = self.costs.landed(left, now, &efforts, logged);
            legs.first().filter(|_| legs.len() == 1).inspect(|leg| self.watch(leg, time));
        }
        for mut leg in legs {
            leg.log_landed(now);
            // Of a lost device nobody knows whether it is done with it.
            if let (Some(fence), Some(frozen), Ok(())) = (leg.fence.take(), &leg.hold.keeps, &lost) {
                frozen.give_back(fence);
            }
            if pending {
                // Nobody knows whether a lost device still runs it: what it uses stays for good.
                std::mem::forget(leg.hold.clone());
            }
            match lost.clone().and_then(|()| outcome.clone()) {
                Ok(()) => self.land(leg),
                Err(error) => leg.fail(&error, true).wake(),
            }
        }
        if lost.is_err() || outcome.is_err() {
            self.counters.publish();
        }
        true
    }

    fn poll(&self, mark: &Mark) -> Polled {
        match mark {
            Mark::Wgpu(index) => {
                let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(POLL) };
                self.lost.poll(self.wgpu().0, wait)
            }
            Mark::Direct(frozen, fence) => match frozen.wait(*fence) {
                Ok(()) => Polled::Done,
                Err(error) => {
                    self.lost.set(error.to_string());
                    Polled::Pending
                }
            },
        }
    }

    /// Counts what took longer than it was cut to take.
    fn watch(&self, leg: &Leg, time: Duration) {
        if let Some(over) = leg.budget.and_then(|budget| time.checked_sub(budget)) {
            self.counters.overruns.add(1);
            leg.hold.keeps.iter().for_each(|frozen| frozen.set_overran());
            self.counters.overrun_us.add(u64::try_from(over.as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn land(&self, leg: Leg) {
        if !self.landed.swap(true, Ordering::Relaxed) {
            // By now the driver has made what it makes at first use.
            exit::register();
        }
        // Another thread's poll may be running the callback right now.
        while let Some(returning) = leg.returning()
            && returning.mapped().is_none()
            && self.lost.check().is_ok()
        {
            self.lost.poll(self.wgpu().0, wgpu::PollType::Poll);
            thread::yield_now();
        }
        if leg.returning().is_some_and(|returning| returning.mapped() == Some(false)) {
            self.lost.set("what a batch read could not be mapped");
        }
        match self.lost.check() {
            // Before anybody hears of it: a recorder is not behind what a caller sees.
            Ok(()) => leg.land(|| self.counters.publish()),
            Err(error) => leg.fail(&error, true),
        }
        .wake();
    }
}
