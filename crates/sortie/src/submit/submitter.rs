//! Submits what is next, and completes what is done.
//!
//! Submissions leave in the order they were handed over, at most `in_flight` at a time. A [`Driver`] has this done, by threads of its own or not; a blocking
//! [`Submitter::run`] takes the turn itself when nothing is queued, and waits for its own submission.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use smallvec::SmallVec;

use super::{
    device_queue::{DeviceQueue, Refused, Seen, Submitted, Waited},
    driver::{Driver, Turns},
    item::QueueItem,
    queue::{Reservation, SubmitQueue, Turn},
    staged_bytes::StagedBytes,
    submission::{ReadySubmission, Submission},
};
use crate::{
    clock::{Clock, Instant},
    error::{Error, ErrorKind, Result},
    exit::Quit,
    finish::{Completion, Wakers},
    lost::Lost,
    metrics::{AtomicCounter, Counters},
    policy::{Costs, FinishedSubmissions, WorkEstimate},
};

/// How long one wait sleeps before it looks for a lost device; no effect on the latency of completion.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// The one way to a device's queue.
#[derive(Debug)]
pub(crate) struct Submitter<Q: DeviceQueue> {
    pub(super) device: Q,
    pub(super) queue: SubmitQueue<QueueItem<Q>, Submission, Q::WaitPoint>,
    driver: Box<dyn Driver>,
    pub(super) lost: Arc<Lost>,
    counters: Arc<Counters>,
    costs: Arc<Costs>,
    /// What submissions are measured by.
    clock: Clock,
    exiting: AtomicBool,
    pub(super) staged: StagedBytes,
    /// Numbers submissions and writes in the order in which they reach the device. Incremented by the thread that has the turn.
    order: AtomicU64,
}

/// What has become of a submission that left.
enum SubmitOutcome<W> {
    /// It is under way.
    InFlight(W, u64),
    /// It is over, well or not.
    Over(Wakers),
}

impl<Q: DeviceQueue> Quit for Submitter<Q> {
    /// What is queued is not to start any more; what the device can cancel is canceled, and what is under way elsewhere ends by itself.
    fn quit(&self) {
        self.exiting.store(true, Ordering::SeqCst);
        self.device.quit();
        self.queue.close();
    }
}

impl<Q: DeviceQueue> Turns for Submitter<Q> {
    fn take(&self, wait: bool) -> bool {
        let next = if wait { self.queue.next() } else { self.queue.next_now() };
        let Some((item, turn)) = next else { return false };
        self.take_turn_of(item, turn);
        true
    }

    fn complete(&self, wait: bool) -> bool {
        let (next, at_most) =
            if wait { (self.queue.unattended(), SLICE) } else { (self.queue.unattended_now(), Duration::ZERO) };
        let Some((point, serial)) = next else { return false };
        let ended = self.guarded(|| self.attend(&point, serial, at_most));
        wait || ended == Some(true)
    }

    fn is_lost(&self) -> bool {
        self.lost.check().is_err()
    }
}

impl<Q: DeviceQueue> Submitter<Q> {
    /// Starts the driver; what it starts ends once the queue is closed and empty.
    pub(crate) fn start(
        device: Q,
        driver: Box<dyn Driver>,
        in_flight: usize,
        lost: Arc<Lost>,
        counters: Arc<Counters>,
        (costs, clock): (Arc<Costs>, Clock),
        budget: Option<u64>,
    ) -> Result<Arc<Self>> {
        let staged = StagedBytes::new(counters.clone(), budget);
        let submitter = Arc::new(Self {
            device,
            queue: SubmitQueue::new(in_flight),
            driver,
            lost,
            counters,
            costs,
            clock,
            exiting: AtomicBool::new(false),
            staged,
            order: AtomicU64::new(1),
        });
        submitter.driver.start(submitter.clone()).inspect_err(|_| submitter.close())?;
        Ok(submitter)
    }

    pub(crate) fn device(&self) -> &Q {
        &self.device
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Queues items, in order. Never waits for the device.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = QueueItem<Q>>) {
        self.queue.push(items);
        self.pushed();
        self.drain_at_exit();
    }

    /// Lets the caller queue items one by one with nothing between them. `None` where another thread is doing so.
    pub(crate) fn reserve(&self) -> Option<Reservation<'_, QueueItem<Q>, Submission, Q::WaitPoint>> {
        self.queue.reserve()
    }

    /// Ends a reservation: what others have queued meanwhile may leave now.
    pub(crate) fn release(&self, reservation: Reservation<'_, QueueItem<Q>, Submission, Q::WaitPoint>) {
        drop(reservation);
        self.pushed();
        self.drain_at_exit();
    }

    /// Something may leave that could not before. The caller has no turn.
    pub(crate) fn pushed(&self) {
        self.driver.pushed(self);
    }

    /// Fails what was queued after the driver had ended because the process exits: its callers would wait in vain. Either `quit` comes after this look, and the driver finds what
    /// was queued before, or this thread finds that the process exits.
    fn drain_at_exit(&self) {
        while self.exiting.load(Ordering::SeqCst) {
            if !self.take(false) {
                return;
            }
        }
    }

    /// Waits for what is queued, or runs it where nothing else would.
    pub(crate) fn wait(&self, completion: &Completion) -> Result<()> {
        self.driver.help(self, &|| completion.is_done());
        completion.wait()
    }

    /// Submits and waits. Goes straight to the device, without another thread, when nothing is ahead of it.
    pub(crate) fn run(&self, submission: ReadySubmission<Q::Commands>) -> Result<()> {
        let completion = submission.leg.hold.completion.clone();
        let Some(turn) = self.queue.take_turn(true) else {
            self.push([QueueItem::Submission(submission)]);
            return self.wait(&completion);
        };
        let departed = self.depart(Ok(submission.commands), submission.leg, true);
        drop(turn);
        self.pushed();
        self.drain_at_exit();
        match departed {
            SubmitOutcome::InFlight(point, serial) => {
                while !completion.is_done() && !self.attend(&point, serial, SLICE) {}
            }
            SubmitOutcome::Over(wakers) => wakers.wake(),
        }
        completion.wait()
    }

    /// Nothing more will come: the driver ends when all has landed. Never waits for it.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    pub(super) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed)
    }

    fn take_turn_of(&self, item: QueueItem<Q>, turn: Turn<'_, QueueItem<Q>, Submission, Q::WaitPoint>) {
        let over = self.guarded(|| self.turn(item));
        drop(turn);
        if let Some(wakers) = over {
            wakers.wake();
        }
    }

    /// What one turn is for.
    fn turn(&self, item: QueueItem<Q>) -> Wakers {
        let departed = match item {
            QueueItem::Submission(ReadySubmission { commands, leg }) => self.depart(Ok(commands), leg, false),
            QueueItem::Failed(error, leg) => self.depart(Err(error), leg, false),
            QueueItem::Write(write, target) => {
                self.write_queued(write, target.as_ref());
                return Wakers::default();
            }
            QueueItem::Flush(_done) => {
                self.device.flush();
                return Wakers::default();
            }
        };
        match departed {
            SubmitOutcome::Over(wakers) => wakers,
            SubmitOutcome::InFlight(..) => Wakers::default(),
        }
    }

    /// Our own defects, and those of what a device is reached by, must not end a thread that others wait for: the device counts as lost then.
    fn guarded<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        let outcome = catch_unwind(AssertUnwindSafe(run));
        if outcome.is_err() {
            self.lost.set("a thread of sortie panicked; please report it");
        }
        outcome.ok()
    }

    /// Submits commands, or runs them. The caller has the turn.
    fn depart(
        &self,
        commands: Result<Q::Commands>,
        mut leg: Submission,
        attended: bool,
    ) -> SubmitOutcome<Q::WaitPoint> {
        // Also of one that does not start: what its batch has left behind comes after all that was overwritten before.
        leg.order = self.next_order();
        let _span = tracing::debug_span!(target: "sortie", "submit", part = leg.part, last = leg.last).entered();
        let mut leg = match leg.begin() {
            Ok(leg) => leg,
            Err(wakers) => return SubmitOutcome::Over(wakers),
        };
        let commands = match self.open().and_then(|()| leg.check()).and(commands) {
            Ok(commands) => commands,
            Err(error) => return SubmitOutcome::Over(leg.fail(&error, false)),
        };
        match self.device.submit(commands, &leg.hold) {
            Ok(Submitted::InFlight { point, at, native }) => {
                (leg.left, leg.native) = (Some(at), native);
                leg.overwrite();
                leg.log_left(at.at);
                self.counters.in_flight.add(1);
                let serial = self.queue.departed(leg, point.clone(), attended);
                SubmitOutcome::InFlight(point, serial)
            }
            Ok(Submitted::Done { begin, outcome }) => SubmitOutcome::Over(self.done(leg, begin, outcome)),
            Err(Refused { error, started }) => SubmitOutcome::Over(leg.fail(&error, started)),
        }
    }

    /// A submission has run while it was submitted. What it leaves behind is settled before the next one's turn.
    fn done(&self, leg: Submission, begin: Instant, outcome: Result<()>) -> Wakers {
        leg.overwrite();
        match outcome {
            Ok(()) => {
                leg.log_left(begin);
                let time = begin.elapsed();
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
        }
    }

    fn open(&self) -> Result<()> {
        if self.exiting.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Canceled, "the process is exiting"));
        }
        self.lost.check()
    }

    /// Sleeps until a submission in flight is done, or a moment has passed; then completes all that is done. True when it is over.
    fn attend(&self, point: &Q::WaitPoint, serial: u64, at_most: Duration) -> bool {
        let mut seen = None;
        match self.device.wait(point, at_most) {
            Waited::Done(when) => seen = Some(when),
            Waited::Dropped => self.lost.set("it was destroyed"),
            Waited::Pending if self.lost.check().is_ok() => return false,
            Waited::Pending => {}
        }
        let lost = self.lost.check();
        // A lost device reports nothing that can be believed: all hear of it.
        let through = if lost.is_ok() { serial } else { u64::MAX };
        let now = seen.map_or_else(Instant::now, |seen| seen.at);
        let (landed, idle) = self.queue.landed(through);
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
                    self.device.retain(point, &leg.hold);
                    leg.fail(error, true).wake();
                }
            }
        }
        if lost.is_err() {
            self.counters.publish();
        }
        self.pushed();
        true
    }

    /// Learns from how long the device had submissions, the last of which has this serial.
    fn measure(&self, landed: &[(Submission, Q::WaitPoint)], serial: u64, seen: Seen, idle: bool) {
        let Some(submitted) = landed.first().and_then(|(leg, _)| leg.left) else { return };
        let efforts: SmallVec<[Option<&Arc<WorkEstimate>>; 2]> =
            landed.iter().map(|(leg, _)| leg.effort.as_ref()).collect();
        let time = self.costs.landed(&FinishedSubmissions {
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
    fn watch(&self, leg: &Submission, time: Duration) {
        if let Some(over) = leg.budget.and_then(|budget| time.checked_sub(budget)) {
            self.counters.overruns.add(1);
            leg.hold.keeps.iter().for_each(|replay| replay.set_overran());
            self.counters.overrun_us.add(u64::try_from(over.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// A submission that was in flight is done.
    fn land(&self, leg: Submission) {
        match self.device.finished(leg.returning()).and_then(|()| self.lost.check()) {
            // Before anyone hears of it: a recorder is not behind what a caller sees.
            Ok(()) => leg.land(|| {
                self.device.reap();
                self.counters.publish();
            }),
            Err(error) => leg.fail(&error, true),
        }
        .wake();
    }
}
