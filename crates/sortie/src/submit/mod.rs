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
mod flight;
mod line;
mod retained;
mod staged;
mod sync;
mod ticket;
mod wait_point;
mod write;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

pub(crate) use completion::Completion;
pub(crate) use departure::{Departure, Outbound};
pub(crate) use flight::{Flight, Hold, Leg, Logged, Pins, poisoned};
use parking_lot::Mutex;
use smallvec::SmallVec;
pub(crate) use ticket::Landing;
pub use ticket::{Readable, Reading, Ticket};

use self::{
    completion::Wakers,
    line::{Line, Queued, Turn},
    retained::Retained,
    staged::Staged,
    wait_point::{Seen, WaitPoint, Waited},
    write::Target,
};
use crate::{
    device::{Gpu, Lost, SignalGuard, Timeline},
    encode::{Commands, Frozen},
    error::{Error, ErrorKind, Result},
    exit::{self, Loading, Quit},
    memory::{self, Block},
    metrics::{Count, Counters},
    policy::{Clock, Costs, Effort, Landed},
};

/// How long one wait sleeps before it looks for a lost device; no effect on the latency of completion.
const SLICE: Duration = Duration::from_millis(100);
/// Between two looks for a mapping whose callback another thread's poll is about to run.
const MAPPING: Duration = Duration::from_millis(1);

/// The one way to a device's queue.
#[derive(Debug)]
pub(crate) struct Submitter {
    queue: Queue,
    /// What submissions signal, on Vulkan.
    timeline: Option<Arc<Timeline>>,
    /// What a lost device may still use; `None` on the built-in CPU.
    retained: Option<Arc<Retained>>,
    line: Line<Item, Leg, WaitPoint>,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    costs: Arc<Costs>,
    /// What submissions are measured by.
    clock: Clock,
    exiting: AtomicBool,
    /// Who else has the queue. Locked while it is used past wgpu.
    sharing: Mutex<Sharing>,
    /// Writes that wgpu keeps, or that wait for their turn.
    staged: Staged,
    /// What the built-in CPU runs.
    running: Mutex<Option<Arc<Completion>>>,
    /// Numbers submissions and writes in the order in which they reach the device. Incremented by the thread that has the turn.
    order: AtomicU64,
    /// The submit thread.
    runner: OnceLock<ThreadId>,
    /// From the first submission until it has landed: a driver may load its compiler only then.
    loading: Mutex<Option<Loading>>,
    /// Whether there was a first submission, and whether it has landed.
    first: [AtomicBool; 2],
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

/// Who uses a queue besides the submitter.
#[derive(Debug, Default)]
struct Sharing {
    /// Others may submit to it: it is an application's, or was given away.
    others: bool,
    /// Something went past wgpu.
    direct: bool,
}

/// What has become of a flight that left.
enum Departed {
    /// It is under way.
    Flying(WaitPoint, u64),
    /// It is over, well or not.
    Over(Wakers),
}

/// What goes to the queue in order.
#[derive(Debug)]
enum Item {
    Flight(Flight),
    /// A write that takes effect when the view is dropped.
    Write(wgpu::QueueWriteBufferView, Target),
    /// A write by commands that copy staged bytes; the number is their count.
    CopyIn(wgpu::CommandBuffer, u64, Target),
    /// A write to the host's own memory.
    Store {
        target: Target,
        start: u64,
        data: Box<[u8]>,
    },
    /// Writes are to be submitted without waiting for the next flight. Dropped when they are.
    Flush(SignalGuard),
    /// Commands that nobody waits for: the zeroing of recycled memory.
    Clear(wgpu::CommandBuffer),
}

impl Queued for Item {
    fn flies(&self) -> bool {
        matches!(self, Self::Flight(_))
    }
}

impl Quit for Submitter {
    /// What is queued is not to start any more, what the built-in CPU runs is canceled, and what is under way elsewhere ends by itself.
    fn quit(&self) {
        self.exiting.store(true, Ordering::SeqCst);
        if let Some(running) = &*self.running.lock() {
            running.cancel();
        }
        self.line.close();
    }
}

impl Submitter {
    /// Starts the threads; they end once the line is closed and empty.
    pub(crate) fn start(
        queue: Queue,
        in_flight: usize,
        lost: Arc<Lost>,
        counters: Arc<Counters>,
        (costs, clock): (Arc<Costs>, Clock),
        budget: Option<u64>,
    ) -> Result<Arc<Self>> {
        let line = Line::new(in_flight);
        let staged = Staged::new(counters.clone(), budget);
        let (mut timeline, mut retained, mut others) = (None, None, false);
        if let Queue::Wgpu { gpu, .. } = &queue {
            others = gpu.guest();
            timeline = Timeline::new(gpu).map(Arc::new);
            retained = Some(Arc::new(Retained {
                gpu: gpu.clone(),
                timeline: timeline.clone(),
                lost: lost.clone(),
                counters: counters.clone(),
                state: Mutex::default(),
            }));
        }
        let waits = retained.is_some();
        let submitter = Arc::new(Self {
            queue,
            timeline,
            retained,
            line,
            lost,
            counters,
            costs,
            clock,
            exiting: AtomicBool::new(false),
            sharing: Mutex::new(Sharing { others, direct: false }),
            staged,
            running: Mutex::default(),
            order: AtomicU64::new(1),
            runner: OnceLock::new(),
            loading: Mutex::default(),
            first: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        let spawn = |name: &str, run: fn(&Self)| {
            let submitter = submitter.clone();
            thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    exit::begin_exempt();
                    run(&submitter);
                    let lost = submitter.lost.clone();
                    drop(submitter);
                    if lost.check().is_err() {
                        // A service that loses devices must not grow: what a device of many threads had lies in pieces.
                        memory::give_back();
                    }
                })
                .map_err(|error| Error::internal(format!("the thread {name} did not start")).caused_by(error))
        };
        let quit: Weak<dyn Quit> = Arc::<Self>::downgrade(&submitter);
        // Enlisted one by one: should the second not start, closing the line ends the first.
        let started = [("sortie-submit", Self::submit_loop as fn(&Self)), ("sortie-wait", Self::wait_loop)]
            .into_iter()
            .take(1 + usize::from(waits))
            .try_for_each(|(name, run)| spawn(name, run).map(|thread| exit::enlist(quit.clone(), thread)));
        started.inspect_err(|_| submitter.close())?;
        Ok(submitter)
    }

    /// Queues flights, in order. Never waits for the device.
    pub(crate) fn push(&self, flights: impl IntoIterator<Item = Flight>) {
        self.line.push(flights.into_iter().map(Item::Flight));
        self.drain_at_exit();
    }

    /// Fails what was queued after the submit thread had ended because the process exits: its callers would wait in vain. Either `quit` comes after this look, and the submit thread finds what
    /// was queued before, or this thread finds that the process exits.
    fn drain_at_exit(&self) {
        while self.exiting.load(Ordering::SeqCst)
            && let Some((item, turn)) = self.line.next_now()
        {
            self.attend_turn(item, turn);
        }
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
        self.drain_at_exit();
        match departed {
            Departed::Flying(index, serial) => while !completion.is_done() && !self.attend(&index, serial) {},
            Departed::Over(wakers) => wakers.wake(),
        }
        completion.wait()
    }

    /// Runs commands that nobody waits for, in order with the flights.
    pub(crate) fn clear(&self, commands: wgpu::CommandBuffer) {
        self.line.push([Item::Clear(commands)]);
    }

    /// Nothing more will come: the threads end when all has landed. Never waits for them.
    pub(crate) fn close(&self) {
        self.line.close();
    }

    fn submit_loop(&self) {
        self.runner.get_or_init(|| thread::current().id());
        while let Some((item, turn)) = self.line.next() {
            self.attend_turn(item, turn);
        }
    }

    fn attend_turn(&self, item: Item, turn: Turn<'_, Item, Leg, WaitPoint>) {
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
            Item::Write(view, target) => self.remember(self.apply(view, &target), &target),
            Item::CopyIn(commands, bytes, target) => {
                self.remember(self.apply_copy(commands, bytes, &target), &target);
            }
            Item::Store { target, start, data } => {
                self.remember(self.apply_store(start, &data, &target), &target);
                self.staged.sub(data.len() as u64);
            }
            Item::Flush(_done) => {
                if let Queue::Wgpu { .. } = self.queue {
                    self.submit_writes();
                }
            }
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

    /// Submits one flight, or runs it. The caller has the turn.
    fn depart(&self, flight: Flight, attended: bool) -> Departed {
        let Flight { commands, mut leg } = flight;
        // Also of one that does not start: what its batch has left behind comes after all that was overwritten before.
        leg.order = self.next_order();
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
                leg.overwrite();
                let (blocks, completion) = (leg.hold.blocks(), &leg.hold.completion);
                *self.running.lock() = Some(completion.clone());
                // Set before `exiting` is read: either `quit` finds it running, or this thread finds that the process exits.
                if self.exiting.load(Ordering::SeqCst) {
                    completion.cancel();
                }
                let start = Instant::now();
                // It may be the caller's own thread, which a defect of ours must not take down.
                self.counters.in_flight.add(1);
                let ran = catch_unwind(AssertUnwindSafe(|| work.run(blocks, completion.canceled())));
                self.counters.in_flight.sub(1);
                drop(self.running.lock().take());
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
        let others = self.sharing.lock().others;
        let scopes = gpu.scopes();
        leg.left = Some(self.clock.now());
        let point = WaitPoint::submit(queue, self.timeline.as_deref(), others, commands);
        self.staged.left(point.as_ref());
        let refused = scopes.pop(|| "a submission".into(), 0).err();
        let error = match (&point, refused) {
            (Some(_), None) => None,
            (None, None) => {
                self.lost.set("it was destroyed");
                self.lost.check().err()
            }
            (_, Some(error)) => Some(self.lost.explain(gpu, error)),
        };
        match (point, error) {
            (Some(point), None) => self.left(leg, point, attended),
            (point, error) => {
                let error = error.unwrap_or_else(|| Error::internal("a submission was refused without a reason"));
                let error = Block::blame(leg.hold.blocks().iter().flatten(), error);
                // wgpu has reported an error after it had submitted.
                let started = self.timeline.is_some() && point.is_some();
                if let (true, Some(point), Some(retained)) = (started, point, &self.retained) {
                    retained.keep(point, leg.hold.clone());
                }
                Departed::Over(leg.fail(&error, started))
            }
        }
    }

    /// A submission is on its way.
    fn left(&self, leg: Leg, point: WaitPoint, attended: bool) -> Departed {
        if !self.first[0].swap(true, Ordering::Relaxed) {
            *self.loading.lock() = Some(Loading::begin());
        }
        leg.overwrite();
        self.counters.submissions.add(1);
        leg.left.inspect(|left| leg.log_left(left.at));
        self.counters.in_flight.add(1);
        let serial = self.line.departed(leg, point.clone(), attended);
        Departed::Flying(point, serial)
    }

    /// From now on others may use the queue. wgpu does not know of what went past it, and would free the buffers of a destroyed device under it: an empty submission, which ends after all
    /// that came before, keeps it from that.
    pub(crate) fn share_queue(&self) {
        let mut sharing = self.sharing.lock();
        sharing.others = true;
        if std::mem::take(&mut sharing.direct) {
            let (gpu, queue) = self.wgpu();
            let scopes = gpu.scopes();
            queue.submit([]);
            if let Err(error) = scopes.pop(|| "an empty submission".into(), 0) {
                tracing::warn!(%error, "the queue is shared while work that wgpu does not know of is under way");
            }
        }
    }

    /// Whether submissions past wgpu can be waited for.
    pub(crate) fn has_timeline(&self) -> bool {
        self.timeline.is_some()
    }

    /// Submits a part of a replay past wgpu, unless others may be using the queue.
    fn launch(&self, frozen: &Arc<Frozen>, part: usize, mut leg: Leg, attended: bool) -> Departed {
        let (gpu, queue) = self.wgpu();
        let mut sharing = self.sharing.lock();
        let timeline = self.timeline.as_ref().filter(|_| !sharing.others);
        let Some(timeline) = timeline else {
            drop(sharing);
            let scopes = gpu.scopes();
            let commands = frozen.commands(gpu, part);
            let commands = scopes.pop(|| "a run".into(), 0).and(commands);
            return match commands {
                Ok(commands) => self.submit([commands], leg, attended),
                Err(error) => Departed::Over(leg.fail(&self.lost.explain(gpu, error), false)),
            };
        };
        let flushed = match self.staged.pending() {
            true => {
                let scopes = gpu.scopes();
                let point = WaitPoint::submit(queue, Some(timeline), false, None);
                self.staged.left(point.as_ref());
                scopes.pop(|| "writes".into(), 0).map_err(|error| self.lost.explain(gpu, error))
            }
            false => Ok(()),
        };
        leg.left = Some(self.clock.now());
        let launched = flushed.and_then(|()| frozen.launch(part, timeline));
        sharing.direct |= launched.is_ok();
        drop(sharing);
        match launched {
            Ok(value) => self.left(leg, WaitPoint::direct(value), attended),
            Err(error) => {
                if *error.kind() == ErrorKind::DeviceLost {
                    self.lost.set_by_driver();
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

    /// Sleeps until this flight is done, or a moment has passed; then lands all that is done. True when it is over.
    fn attend(&self, point: &WaitPoint, serial: u64) -> bool {
        let (gpu, _) = self.wgpu();
        let mut seen = None;
        match point.wait(gpu, self.timeline.as_deref(), &self.lost, SLICE) {
            Waited::Done(when) => seen = Some(when),
            Waited::Dropped => self.lost.set("it was destroyed"),
            Waited::Pending => {
                self.lost.probe(gpu);
                if self.lost.check().is_ok() {
                    return false;
                }
            }
        }
        let lost = self.lost.check();
        // A lost device reports nothing that can be believed: all hear of it.
        let through = if lost.is_ok() { serial } else { u64::MAX };
        let now = seen.map_or_else(Instant::now, |seen| seen.at);
        let (landed, idle) = self.line.landed(through);
        self.counters.in_flight.sub(landed.len() as u64);
        if let Some(seen) = seen.filter(|_| lost.is_ok()) {
            self.measure(&landed, serial, seen, idle);
        }
        for (leg, point) in landed {
            leg.log_landed(now);
            match &lost {
                Ok(()) => self.land(leg),
                Err(error) => {
                    // Before the ticket resolves, so that the metrics already count what is retained.
                    if let Some(retained) = &self.retained {
                        retained.keep(point, leg.hold.clone());
                    }
                    leg.fail(error, true).wake();
                }
            }
        }
        if lost.is_err() {
            self.counters.publish();
        }
        true
    }

    /// Learns from how long the device had submissions, the last of which has this serial.
    fn measure(&self, landed: &[(Leg, WaitPoint)], serial: u64, seen: Seen, idle: bool) {
        let Some(submitted) = landed.first().and_then(|(leg, _)| leg.left) else { return };
        let efforts: SmallVec<[Option<&Arc<Effort>>; 2]> = landed.iter().map(|(leg, _)| leg.effort.as_ref()).collect();
        let time = self.costs.landed(&Landed {
            serials: [serial + 1 - landed.len() as u64, serial],
            submitted,
            seen: self.clock.at(seen.at),
            on_time: seen.on_time,
            efforts: &efforts,
            compiled: landed.iter().map(|(leg, _)| leg.first_runs()).sum(),
            profiled: landed.iter().any(|(leg, _)| leg.hold.logged.is_some()),
            idle,
        });
        if let ([(leg, _)], Some(time)) = (landed, time) {
            self.watch(leg, time);
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
        if !self.first[1].swap(true, Ordering::Relaxed) {
            // By now the driver has made what it makes at first use.
            exit::register();
            drop(self.loading.lock().take());
        }
        // Another thread's poll may be running the callback right now.
        while let Some(returning) = leg.returning()
            && returning.mapped().is_none()
            && self.lost.check().is_ok()
        {
            self.lost.poll(self.wgpu().0, &wgpu::PollType::Poll);
            returning.wait_mapped(MAPPING);
        }
        if leg.returning().is_some_and(|returning| returning.mapped() == Some(false)) {
            let error = Error::internal("what a batch read could not be mapped");
            let error = self.lost.explain(self.wgpu().0, error);
            return leg.fail(&error, true).wake();
        }
        match self.lost.check() {
            // Before anybody hears of it: a recorder is not behind what a caller sees.
            Ok(()) => leg.land(|| {
                self.reap();
                self.counters.publish();
            }),
            Err(error) => leg.fail(&error, true),
        }
        .wake();
    }
}
