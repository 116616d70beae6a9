//! Submits queued items and completes finished submissions.
//!
//! Submissions are submitted in the order they were handed over, with at most `in_flight` in flight. A [`Driver`]
//! decides which threads do this. A blocking [`Submitter::run`] takes the turn itself when nothing is queued, and waits
//! for its own submission.

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

/// How long one wait sleeps before it checks for a lost device. Does not affect the latency of completion.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// All access to a device's queue.
pub(crate) struct Submitter<Q: DeviceQueue> {
    pub(crate) device: Q,
    pub(super) queue: SubmitQueue<QueueItem<Q>, Submission, Q::WaitPoint>,
    driver: Box<dyn Driver>,
    pub(super) lost: Arc<Lost>,
    pub(crate) counters: Arc<Counters>,
    costs: Arc<Costs>,
    /// Measures device times.
    clock: Clock,
    exiting: AtomicBool,
    pub(super) staged: StagedBytes,
    /// Numbers submissions and writes in the order in which they reach the device. Incremented by the thread that has
    /// the turn.
    order: AtomicU64,
}

/// The state of a submission after its turn.
enum SubmitOutcome<W> {
    /// In flight, with its serial.
    InFlight(W, u64),
    /// Done, successfully or not.
    Over(Wakers),
}

impl<Q: DeviceQueue> Quit for Submitter<Q> {
    /// Queued submissions will not start any more. Running work is canceled where the device can; other submissions in
    /// flight end by themselves.
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
    /// Starts the driver. Its threads end once the queue is closed and empty.
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

    /// Queues items, in order. Never waits for the device.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = QueueItem<Q>>) {
        self.queue.push(items);
        self.pushed();
        self.drain_at_exit();
    }

    /// Lets the caller queue items one by one with nothing between them. `None` if another thread is doing so.
    pub(crate) fn reserve(&self) -> Option<Reservation<'_, QueueItem<Q>, Submission, Q::WaitPoint>> {
        self.queue.reserve()
    }

    /// Ends a reservation: items that others queued meanwhile may be submitted now.
    pub(crate) fn release(&self, reservation: Reservation<'_, QueueItem<Q>, Submission, Q::WaitPoint>) {
        drop(reservation);
        self.pushed();
        self.drain_at_exit();
    }

    /// Something may be submitted that could not before. The caller does not have the turn.
    pub(crate) fn pushed(&self) {
        self.driver.pushed(self);
    }

    /// Fails items that were queued after the driver ended because the process exits: their callers would never be
    /// woken. Either `quit` runs after this check and the driver finds the items, or this thread sees `exiting`.
    fn drain_at_exit(&self) {
        while self.exiting.load(Ordering::SeqCst) {
            if !self.take(false) {
                return;
            }
        }
    }

    /// Waits for a queued batch, or runs it on this thread if no other thread would.
    pub(crate) fn wait(&self, completion: &Completion) -> Result<()> {
        self.driver.help(self, &|| completion.is_done());
        completion.wait()
    }

    /// Submits and waits. Submits on the calling thread when nothing is ahead of it.
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

    /// Submits on the calling thread if the device has nothing else to do, and queues otherwise. Only waits for a device
    /// that runs submissions on the thread that submits them.
    pub(crate) fn submit_here(&self, submission: ReadySubmission<Q::Commands>) {
        let Some(turn) = self.queue.take_idle_turn() else {
            return self.push([QueueItem::Submission(submission)]);
        };
        self.take_turn_of(QueueItem::Submission(submission), turn);
        self.pushed();
        self.drain_at_exit();
    }

    /// No more items will be queued: the driver ends when all submissions are done. Never waits for it.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// The next number in the order of submissions and writes.
    pub(crate) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed)
    }

    fn take_turn_of(&self, item: QueueItem<Q>, turn: Turn<'_, QueueItem<Q>, Submission, Q::WaitPoint>) {
        let over = self.guarded(|| self.turn(item));
        drop(turn);
        if let Some(wakers) = over {
            wakers.wake();
        }
    }

    /// Processes one item. The caller has the turn.
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

    /// A panic, ours or the driver's, must not end a thread that others wait for. The device counts as lost instead.
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
        // Numbered even if it does not start: its poison must come after everything that was overwritten before.
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

    /// Completes a submission that ran inside `submit`. Its overwrites and poison are settled before the next turn.
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

    /// Sleeps until a submission is done, at most `at_most`, then completes every submission up to it. True if it is
    /// done.
    fn poll_one(&self, point: &Q::WaitPoint, serial: u64, at_most: Duration) -> bool {
        let mut seen = None;
        match self.device.wait(point, at_most) {
            Waited::Done(when) => seen = Some(when),
            Waited::Dropped => self.lost.set("it was destroyed"),
            Waited::Pending if self.lost.check().is_ok() => return false,
            Waited::Pending => {}
        }
        let lost = self.lost.check();
        // No report of a lost device can be trusted: all submissions in flight fail.
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
                    // Before the ticket resolves, so that the metrics already count the retained bytes.
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

    /// Learns costs from the device time of finished submissions, the last of which has this serial.
    fn measure(&self, finished: &[(Submission, Q::WaitPoint)], serial: u64, seen: Seen, idle: bool) {
        let Some(submitted) = finished.first().and_then(|(submission, _)| submission.submitted_at) else { return };
        let estimates: SmallVec<[Option<&Arc<WorkEstimate>>; 2]> =
            finished.iter().map(|(submission, _)| submission.estimate.as_ref()).collect();
        let time = self.costs.record_finished(&FinishedSubmissions {
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

    /// Counts a submission that took longer than its budget.
    fn watch(&self, submission: &Submission, time: Duration) {
        if let Some(over) = submission.budget.and_then(|budget| time.checked_sub(budget)) {
            self.counters.overruns.add(1);
            submission.batch.keeps.iter().for_each(|replay| replay.set_overran());
            self.counters.overrun_us.add(u64::try_from(over.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Completes a submission that was in flight and is done.
    fn complete(&self, submission: Submission) {
        match self.device.finished(submission.pending_readback()).and_then(|()| self.lost.check()) {
            // Before the completion is set: a metrics recorder must not lag behind the caller.
            Ok(()) => submission.complete(|| {
                self.device.reap();
                self.counters.publish();
            }),
            Err(error) => submission.fail(&error, true),
        }
        .wake();
    }
}
