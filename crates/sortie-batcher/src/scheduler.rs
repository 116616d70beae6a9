//! The workers of a batcher: their batches in flight, their measured times, and their capacity.
//!
//! Pure, like the queue. Workers take batches themselves when they have capacity, so faster workers take more. The
//! scheduler keeps slower workers from taking rows that another worker would finish sooner. A batch of a slower worker
//! has as many rows as it can do in the time that the fastest takes for a full one, or in `max_wait` if that is longer.
//! A worker that cannot do one row in that time, or whose batches do not finish, only gets an occasional probe.
//!
//! Invariant: a single worker is never restricted.
//!
//! With a target and `Overload::Reject`, a request is admitted if its answer is expected in time: after the batches in
//! flight (an overdue one is expected to take as long again), the queued requests and its own batch, with a margin for
//! batches that took longer than expected, at most half of the target. With nothing queued or in flight it is always
//! admitted, so that there is something to learn from. Requests that became late in the queue are rejected when their
//! batch starts.

use std::{collections::VecDeque, time::Duration};

use crate::{
    config::{BatchConfig, BatchSizing, Overload},
    linger::{FinishedBatch, Linger, PART_OF_MAX_WAIT},
    queue::Capacity,
    service_fit::{BatchPlan, ServiceFit, ServiceTime},
};

/// How often a worker that is too slow is probed, and with which fraction of a batch.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_PART: usize = 64;
/// The fraction of a batch that an unmeasured worker gets.
const UNKNOWN_PART: usize = 8;
/// A batch that takes this many times the expected time, plus `max_wait`, is overdue.
const OVERDUE_FACTOR: u32 = 8;
/// Other workers wait at least this long for a busy worker before they take its rows.
const MIN_PATIENCE: Duration = Duration::from_millis(1);
/// The fraction of a target that is planned for: measured times vary.
const PLANNED_PART: f64 = 0.95;

/// Decides how much each worker takes, and which requests are admitted.
///
/// Workers are numbered from 0; an unknown number panics. Every method takes the time as an argument, so a simulation
/// can use its own clock.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::{BatchConfig, scheduler::Scheduler};
///
/// let ms = Duration::from_millis(1);
/// let mut scheduler = Scheduler::new(BatchConfig::default().with_max_batch_size(100).with_in_flight(1), 1);
/// assert_eq!(scheduler.capacity(0, ms, 7).size, 100);
/// scheduler.dispatched(0, 7, 7, ms);
/// assert!(!scheduler.capacity(0, 2 * ms, 7).free);
/// scheduler.finished(0, 0, 3 * ms);
/// assert_eq!(scheduler.metrics()[0].rows, 7);
/// ```
#[derive(Debug)]
pub struct Scheduler {
    config: BatchConfig,
    workers: Vec<WorkerRecord>,
}

#[derive(Debug)]
struct WorkerRecord {
    fit: ServiceFit,
    /// Rows and start of the batches in flight, in order.
    in_flight: VecDeque<(usize, Duration)>,
    /// When the last batch finished.
    finished: Duration,
    /// Rows of a batch, and rows that may be queued for it, according to the sizing.
    size: usize,
    room: usize,
    /// Maximum batches in flight, according to the sizing.
    max_in_flight: usize,
    /// Whether it has not failed.
    up: bool,
    state: WorkerState,
    /// If it is too slow: when it may be probed again.
    probe: Duration,
    linger: Linger,
    metrics: WorkerMetrics,
}

/// Metrics and measured times of a worker of a batcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Batches taken.
    pub batches: u64,
    /// Rows taken.
    pub rows: u64,
    /// Whether it works: it has not failed, and is not recovering.
    pub up: bool,
    /// Current rows of its full batch; 0 if it is too slow and only gets probes.
    pub batch_size: usize,
    /// Time of its batches; `None` before the first.
    pub measured: Option<ServiceTime>,
}

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    /// Awake since then: looking for work, or working.
    Awake(Duration),
    /// Asleep, until then at the latest.
    Asleep(Option<Duration>),
}

impl Scheduler {
    /// A scheduler for this number of workers.
    #[must_use]
    pub fn new(config: BatchConfig, workers: usize) -> Self {
        let record = |_| WorkerRecord {
            fit: ServiceFit::default(),
            in_flight: VecDeque::new(),
            finished: Duration::ZERO,
            size: match config.sizing {
                BatchSizing::Fixed => config.max_batch_size.max(1),
                BatchSizing::Target { .. } => 1,
            },
            // Nothing is rejected before the first measurement.
            room: config.capacity(),
            max_in_flight: config.in_flight.max(1),
            up: true,
            state: WorkerState::Awake(Duration::ZERO),
            probe: Duration::ZERO,
            linger: Linger::default(),
            metrics: WorkerMetrics::default(),
        };
        Self { config, workers: (0..workers).map(record).collect() }
    }

    /// The capacity of a worker when `queued` rows are queued.
    #[must_use]
    pub fn capacity(&self, worker: usize, now: Duration, queued: usize) -> Capacity {
        let own = &self.workers[worker];
        let idle = own.in_flight.is_empty();
        let linger = own.linger.target(now, queued);
        let arrived_since = self.in_time_since(own, now, queued);
        if self.workers.len() == 1 {
            return Capacity { free: Self::has_place(own), idle, linger, size: own.size, reserved: 0, arrived_since };
        }
        let size = match self.share(worker) {
            0 if idle && now >= own.probe => (own.size / PROBE_PART).max(1),
            size => size,
        };
        let free = self.is_free(worker, now) && size > 0;
        let ready = self.ready(worker, now, queued);
        let sooner = |other: &usize| {
            let theirs = self.ready(*other, now, queued);
            *other != worker && self.is_free(*other, now) && (theirs < ready || theirs == ready && *other < worker)
        };
        let reserved = (0..self.workers.len()).filter(sooner).map(|other| self.share(other)).sum();
        Capacity { free, idle, linger, size, reserved, arrived_since }
    }

    /// Whether a request of `rows` rows that arrives now, after `queued` rows, will be answered in time. Always true if
    /// nothing is queued and a worker is idle, because times must be measured; without a target; and if requests wait
    /// for room.
    #[must_use]
    pub fn is_in_time(&self, now: Duration, queued: usize, rows: usize) -> bool {
        let Some(p99) = self.enforced_target() else { return true };
        let up = || self.workers.iter().filter(|own| own.up);
        let room = up().fold(0_usize, |room, own| room.saturating_add(self.room_in_time(own, p99, now)));
        queued.saturating_add(rows) <= room || queued == 0 && up().any(|own| own.in_flight.is_empty())
    }

    /// The target, if requests that would miss it are rejected.
    fn enforced_target(&self) -> Option<Duration> {
        match (self.config.sizing, self.config.overload) {
            (BatchSizing::Target { p99 }, Overload::Reject) => Some(p99),
            _ => None,
        }
    }

    /// Rows that a worker can answer in time after its batches in flight, in batches of the current size.
    fn room_in_time(&self, own: &WorkerRecord, p99: Duration, now: Duration) -> usize {
        let Some(full) = own.fit.time(own.size).filter(|_| own.fit.is_known()) else { return 0 };
        let waits = if self.config.greedy { Duration::ZERO } else { max_wait_for(self.config, p99) };
        let planned = p99.mul_f64(PLANNED_PART).saturating_sub(own.fit.margin(own.size, p99) + waits);
        let left = planned.saturating_sub(self.ahead(own, now));
        let batches = left.div_duration_f64(full.max(Duration::from_nanos(1))) as u32;
        let rest = own.fit.rows_within(left.saturating_sub(full.saturating_mul(batches))).unwrap_or_default();
        own.size.saturating_mul(batches as usize).saturating_add(rest.min(own.size))
    }

    /// Remaining time of a worker's batches in flight. A batch that exceeds its expected time is expected to exceed it
    /// by as much again.
    fn ahead(&self, own: &WorkerRecord, now: Duration) -> Duration {
        let time = |(rows, _): &(usize, Duration)| own.fit.time(*rows).unwrap_or_default();
        let Some(first) = own.in_flight.front() else { return Duration::ZERO };
        let since = now.saturating_sub(first.1.max(own.finished));
        own.in_flight.iter().skip(1).map(time).sum::<Duration>() + time(first).abs_diff(since)
    }

    /// If late requests are rejected: those that arrived before this are too late for a batch that starts now. An idle
    /// worker accepts any request that has waited for less than half of the target.
    fn in_time_since(&self, own: &WorkerRecord, now: Duration, queued: usize) -> Option<Duration> {
        let p99 = self.enforced_target()?;
        let service = own.fit.time(queued.min(own.size)).unwrap_or_default();
        let least = if own.in_flight.is_empty() { p99 / 2 } else { Duration::ZERO };
        let may_have_waited = p99.saturating_sub(self.ahead(own, now) + service).max(least);
        Some(now.saturating_sub(may_have_waited))
    }

    /// Whether a worker may have one more batch in flight.
    #[must_use]
    pub fn can_start(&self, worker: usize) -> bool {
        Self::has_place(&self.workers[worker])
    }

    fn has_place(own: &WorkerRecord) -> bool {
        own.up && own.in_flight.len() < own.max_in_flight
    }

    /// Rows of this worker's batches: as many as it does in the time of the fastest.
    fn share(&self, worker: usize) -> usize {
        let own = &self.workers[worker];
        let full = |own: &WorkerRecord| own.fit.time(own.size).filter(|_| own.up);
        let fastest = self.workers.iter().filter_map(full).min().unwrap_or_default();
        // Tolerance for rounding between equal workers.
        let time = fastest.max(self.config.max_wait) + fastest / 100;
        match own.fit.rows_within(time) {
            Some(rows) => rows.min(own.size),
            None => (own.size / UNKNOWN_PART).max(1),
        }
    }

    /// Whether a worker can take requests now.
    fn is_free(&self, worker: usize, now: Duration) -> bool {
        let own = &self.workers[worker];
        let away = match own.state {
            WorkerState::Awake(since) => now.saturating_sub(since) > self.patience(),
            WorkerState::Asleep(_) => false,
        };
        Self::has_place(own) && !away && !self.is_overdue(own, now)
    }

    /// How long others wait for a worker that is about to take requests.
    fn patience(&self) -> Duration {
        self.config.max_wait.max(MIN_PATIENCE)
    }

    fn is_overdue(&self, own: &WorkerRecord, now: Duration) -> bool {
        let Some((rows, started)) = own.in_flight.front() else { return false };
        let expected = own.fit.time(*rows).unwrap_or(PROBE_INTERVAL);
        now.saturating_sub((*started).max(own.finished)) > expected * OVERDUE_FACTOR + self.config.max_wait
    }

    /// Time until this worker would have finished its share of the queued rows.
    fn ready(&self, worker: usize, now: Duration, queued: usize) -> Duration {
        let own = &self.workers[worker];
        let time = |rows: usize| own.fit.time(rows).unwrap_or_default();
        let before: Duration = own.in_flight.iter().map(|(rows, _)| time(*rows)).sum();
        let since = own.in_flight.front().map(|(_, started)| now.saturating_sub((*started).max(own.finished)));
        before.saturating_sub(since.unwrap_or_default()) + time(queued.min(self.share(worker)))
    }

    /// When a worker that leaves rows to others must check again, because they may not take them.
    #[must_use]
    pub fn look_again(&self, capacity: &Capacity, now: Duration) -> Option<Duration> {
        (capacity.reserved > 0 || capacity.size == 0).then(|| now + self.patience())
    }

    /// Records that a batch from the queue started, when `queued` rows were queued.
    pub fn dispatched(&mut self, worker: usize, rows: usize, queued: usize, now: Duration) {
        if self.workers.len() > 1 && self.share(worker) == 0 {
            self.workers[worker].probe = now + PROBE_INTERVAL;
        }
        self.started(worker, rows, now);
        let own = &mut self.workers[worker];
        own.linger.end(queued);
        own.metrics.batches += 1;
        own.metrics.rows += rows as u64;
    }

    /// Records that a part of a failed batch started again.
    pub fn started(&mut self, worker: usize, rows: usize, now: Duration) {
        self.workers[worker].in_flight.push_back((rows, now));
    }

    /// Records that the oldest batch in flight finished; `queued` rows are queued.
    pub fn finished(&mut self, worker: usize, queued: usize, now: Duration) {
        let config = self.config;
        let max_wait = self.limits().map_or(config.max_wait, |(_, max_wait)| max_wait);
        let own = &mut self.workers[worker];
        let Some((rows, started)) = own.in_flight.pop_front() else { return };
        // A worker runs one batch after the other.
        let service = now.saturating_sub(started.max(own.finished));
        own.fit.add(rows, service);
        own.finished = now;
        if config.greedy && own.in_flight.is_empty() {
            own.linger.begin(now, FinishedBatch { rows, service, queued, capacity: own.size }, max_wait);
        }
        if let BatchSizing::Target { p99 } = config.sizing {
            let waits = max_wait_for(config, p99);
            let waits = if config.greedy { waits / PART_OF_MAX_WAIT } else { waits };
            let target = p99.mul_f64(PLANNED_PART).saturating_sub(waits);
            let BatchPlan { rows, in_flight } = own.fit.plan(target, config.in_flight.max(1));
            let rows = match rows {
                // All answers are late; one row delays them least.
                0 if config.overload == Overload::Reject => 1,
                0 => own.fit.balanced_rows(),
                rows => rows,
            };
            let rows = rows.min(config.max_batch_size).max(1);
            (own.size, own.room, own.max_in_flight) = (rows.min(own.fit.trusted_rows()), rows, in_flight);
        }
    }

    /// Records that the newest batch did not start.
    pub fn not_started(&mut self, worker: usize) {
        self.workers[worker].in_flight.pop_back();
    }

    /// Records that the oldest batch in flight failed. Its time is not used.
    pub fn failed(&mut self, worker: usize, now: Duration) {
        let own = &mut self.workers[worker];
        own.in_flight.pop_front();
        own.finished = now;
    }

    /// Records that a worker failed.
    pub fn worker_failed(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        own.up = false;
        own.in_flight.clear();
        own.fit = ServiceFit::default();
    }

    /// Records that a failed worker works again.
    pub fn worker_recovered(&mut self, worker: usize) {
        self.workers[worker].up = true;
    }

    /// Whether all workers have failed.
    #[must_use]
    pub fn have_all_failed(&self) -> bool {
        self.workers.iter().all(|own| !own.up)
    }

    /// Records that a worker sleeps, until that time at the latest.
    pub fn sleeps(&mut self, worker: usize, until: Option<Duration>) {
        self.workers[worker].state = WorkerState::Asleep(until);
    }

    /// Records that a worker looks for work.
    pub fn wakes(&mut self, worker: usize, now: Duration) {
        self.workers[worker].state = WorkerState::Awake(now);
    }

    /// Until when a worker sleeps; `None` if it is awake.
    #[expect(clippy::option_option, reason = "asleep without a time is not awake")]
    pub(crate) fn sleep_of(&self, worker: usize) -> Option<Option<Duration>> {
        match self.workers[worker].state {
            WorkerState::Asleep(until) => Some(until),
            WorkerState::Awake(_) => None,
        }
    }

    /// Whether no batch is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.workers.iter().all(|own| own.in_flight.is_empty())
    }

    /// Expected time of a worker's batch of at most `rows` rows; `None` until some were measured.
    pub(crate) fn expected_time(&self, worker: usize, rows: usize) -> Option<Duration> {
        let own = &self.workers[worker];
        own.fit.time(rows.min(own.size)).filter(|_| own.fit.is_known())
    }

    /// A worker does not wait for the callers of its last batch.
    pub(crate) fn stops_lingering(&mut self, worker: usize) {
        self.workers[worker].linger.stop();
    }

    /// The sleeping workers, and until when they sleep.
    pub fn sleepers(&self) -> impl Iterator<Item = (usize, Option<Duration>)> + '_ {
        self.workers.iter().enumerate().filter_map(|(worker, own)| match own.state {
            WorkerState::Asleep(until) => Some((worker, until)),
            WorkerState::Awake(_) => None,
        })
    }

    /// The metrics of each worker.
    #[must_use]
    pub fn metrics(&self) -> Vec<WorkerMetrics> {
        let metrics = |(worker, own): (usize, &WorkerRecord)| WorkerMetrics {
            up: own.up,
            batch_size: if self.workers.len() == 1 { own.size } else { self.share(worker) },
            measured: own.fit.service_time(),
            ..own.metrics
        };
        self.workers.iter().enumerate().map(metrics).collect()
    }

    /// Current rows of the largest batches.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.workers.iter().map(|own| own.size).max().unwrap_or_default()
    }

    /// Maximum queued rows, and maximum wait of a request, if a target sets them.
    #[must_use]
    pub fn limits(&self) -> Option<(usize, Duration)> {
        let BatchSizing::Target { p99 } = self.config.sizing else { return None };
        let up = self.workers.iter().filter(|own| own.up);
        let rows = up.fold(0_usize, |rows, own| rows.saturating_add(own.room));
        Some((rows.clamp(1, self.config.capacity()), max_wait_for(self.config, p99)))
    }
}

/// Maximum wait of a request for others if there is a target.
fn max_wait_for(config: BatchConfig, p99: Duration) -> Duration {
    config.max_wait.min(p99 / 4)
}

#[cfg(test)]
mod tests;
