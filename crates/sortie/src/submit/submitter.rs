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
            if wait { (self.queue.next_unwaited(), SLICE) } else { (self.queue.unattended_now(), Duration::ZERO) };
        let Some((point, serial)) = next else { return false };
        let ended = self.guarded(|| self.poll_one(&point, serial, at_most));
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
        let completion = submission.submission.batch.completion.clone();
        let Some(turn) = self.queue.take_turn(true) else {
            self.push([QueueItem::Submission(submission)]);
            return self.wait(&completion);
        };
        let started = self.submit_one(Ok(submission.commands), submission.submission, true);
        drop(turn);
        self.pushed();
        self.drain_at_exit();
        match started {
            SubmitOutcome::InFlight(point, serial) => {
                while !completion.is_done() && !self.poll_one(&point, serial, SLICE) {}
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
        let started = match item {
            QueueItem::Submission(ReadySubmission { commands, submission }) => {
                self.submit_one(Ok(commands), submission, false)
            }
            QueueItem::Failed(error, submission) => self.submit_one(Err(error), submission, false),
            QueueItem::Write(write, target) => {
                self.write_queued(write, target.as_ref());
                return Wakers::default();
            }
            QueueItem::Flush(_done) => {
                self.device.flush();
                return Wakers::default();
            }
        };
        match started {
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
    fn submit_one(
        &self,
        commands: Result<Q::Commands>,
        mut submission: Submission,
        attended: bool,
    ) -> SubmitOutcome<Q::WaitPoint> {
        // Also of one that does not start: what its batch has left behind comes after all that was overwritten before.
        submission.order = self.next_order();
        let _span =
            tracing::debug_span!(target: "sortie", "submit", part = submission.part, last = submission.last).entered();
        let mut submission = match submission.begin() {
            Ok(submission) => submission,
            Err(wakers) => return SubmitOutcome::Over(wakers),
        };
        let commands = match self.open().and_then(|()| submission.check()).and(commands) {
            Ok(commands) => commands,
            Err(error) => return SubmitOutcome::Over(submission.fail(&error, false)),
        };
        match self.device.submit(commands, &submission.batch) {
            Ok(Submitted::InFlight { point, at, native }) => {
                (submission.submitted_at, submission.native) = (Some(at), native);
                submission.overwrite();
                submission.log_submitted(at.at);
                self.counters.in_flight.add(1);
                let serial = self.queue.started(submission, point.clone(), attended);
                SubmitOutcome::InFlight(point, serial)
            }
            Ok(Submitted::Done { begin, outcome }) => SubmitOutcome::Over(self.done(submission, begin, outcome)),
            Err(Refused { error, started }) => SubmitOutcome::Over(submission.fail(&error, started)),
        }
    }

    /// A submission has run while it was submitted. What it leaves behind is settled before the next one's turn.
    fn done(&self, submission: Submission, begin: Instant, outcome: Result<()>) -> Wakers {
        submission.overwrite();
        match outcome {
            Ok(()) => {
                submission.log_submitted(begin);
                let time = begin.elapsed();
                if let Some(estimate) = &submission.estimate {
                    self.costs.record_alone(estimate, time, submission.batch.logged.is_some());
                }
                self.watch(&submission, time);
                submission.complete(|| self.counters.publish())
            }
            Err(error) => {
                self.counters.publish();
                submission.fail(&error, true)
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
    fn poll_one(&self, point: &Q::WaitPoint, serial: u64, at_most: Duration) -> bool {
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
        let (finished, idle) = self.queue.finished(through);
        self.counters.in_flight.sub(finished.len() as u64);
        if let Some(seen) = seen.filter(|_| lost.is_ok()) {
            self.measure(&finished, serial, seen, idle);
        }
        for (submission, point) in finished {
            submission.log_finished(now);
            match &lost {
                Ok(()) => self.complete(submission),
                Err(error) => {
                    // Before the ticket resolves, so that the metrics already count what is retained.
                    self.device.retain(point, &submission.batch);
                    submission.fail(error, true).wake();
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
    fn measure(&self, finished: &[(Submission, Q::WaitPoint)], serial: u64, seen: Seen, idle: bool) {
        let Some(submitted) = finished.first().and_then(|(submission, _)| submission.submitted_at) else { return };
        let estimates: SmallVec<[Option<&Arc<WorkEstimate>>; 2]> =
            finished.iter().map(|(submission, _)| submission.estimate.as_ref()).collect();
        let time = self.costs.landed(&FinishedSubmissions {
            serials: [serial + 1 - finished.len() as u64, serial],
            submitted,
            seen: self.clock.at(seen.at),
            on_time: seen.on_time,
            estimates: &estimates,
            compiled: finished.iter().map(|(submission, _)| submission.first_runs()).sum(),
            profiled: finished.iter().any(|(submission, _)| submission.batch.logged.is_some()),
            idle,
        });
        if let ([(submission, _)], Some(time)) = (finished, time) {
            self.watch(submission, time);
        }
    }

    /// Counts what took longer than it was cut to take.
    fn watch(&self, submission: &Submission, time: Duration) {
        if let Some(over) = submission.budget.and_then(|budget| time.checked_sub(budget)) {
            self.counters.overruns.add(1);
            submission.batch.keeps.iter().for_each(|replay| replay.set_overran());
            self.counters.overrun_us.add(u64::try_from(over.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// A submission that was in flight is done.
    fn complete(&self, submission: Submission) {
        match self.device.finished(submission.pending_readback()).and_then(|()| self.lost.check()) {
            // Before anyone hears of it: a recorder is not behind what a caller sees.
            Ok(()) => submission.complete(|| {
                self.device.reap();
                self.counters.publish();
            }),
            Err(error) => submission.fail(&error, true),
        }
        .wake();
    }
}
