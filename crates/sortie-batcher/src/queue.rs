//! Queued requests, and the rules for starting them. Pure: time is an argument, so that every rule can be tested
//! without a clock.
//!
//! Requests are queued by key, because different keys never share a batch, and by priority. A batch has one key, that
//! of the most urgent request: higher priorities go first, but each four times `max_wait` that a request has waited
//! raises it by one, so that none waits indefinitely. Requests without room are blocked, in the order of their arrival.
//!
//! Invariant: while requests are blocked there is no room for the first of them.

use std::{cmp::Reverse, collections::VecDeque, time::Duration};

use crate::{config::BatchConfig, linger::LingerTarget};

/// Number of `max_wait`s that raise a request by one priority.
const AGEING: u32 = 4;
/// Keys without requests that are kept to reuse their memory.
const SPARE_KEYS: usize = 8;

/// The priority of a request.
///
/// ```
/// use sortie_batcher::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others, but not indefinitely.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before all others.
    High,
}

const PRIORITIES: usize = 3;

/// Why a batch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// It is full.
    Full,
    /// Its oldest request has waited for `max_wait`.
    Waited,
    /// The worker is idle.
    Idle,
    /// The batcher is closing.
    Closing,
}

/// A request in the queue.
#[derive(Debug, PartialEq)]
pub struct QueuedRequest<R> {
    /// The request itself, which the queue does not inspect.
    pub request: R,
    /// Rows that it takes in a batch.
    pub rows: usize,
    /// When it arrived.
    pub arrived: Duration,
    /// When it expires.
    pub deadline: Option<Duration>,
}

impl<R> QueuedRequest<R> {
    fn is_late(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// The capacity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Whether it may have one more batch in flight.
    pub free: bool,
    /// Whether it has nothing in flight.
    pub idle: bool,
    /// The callers that it waits for before it takes less than a full batch.
    pub linger: Option<LingerTarget>,
    /// Rows of a full batch.
    pub size: usize,
    /// Rows reserved for workers that would finish them sooner.
    pub reserved: usize,
    /// Requests that arrived earlier are rejected: they would be answered too late.
    pub arrived_since: Option<Duration>,
}

/// What a worker should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Take the batch of this key.
    Start(u64, FlushReason),
    /// Wait until that time, unless a request arrives or a batch finishes.
    Until(Option<Duration>),
}

/// The requests of one key.
#[derive(Debug)]
struct KeyQueue<R> {
    key: u64,
    rows: usize,
    by_priority: [VecDeque<QueuedRequest<R>>; PRIORITIES],
}

/// The queue of a batcher.
///
/// ```
/// use std::time::Duration;
/// use sortie_batcher::{
///     BatchConfig, Priority,
///     queue::{Capacity, Decision, FlushReason, QueuedRequest, RequestQueue, TakenBatch},
/// };
///
/// let ms = Duration::from_millis(1);
/// let mut queue = RequestQueue::new(&BatchConfig::default().with_greedy(false).with_max_wait(5 * ms));
/// queue.push(0, Priority::Normal, QueuedRequest { request: "a", rows: 1, arrived: ms, deadline: None });
/// queue.push(0, Priority::High, QueuedRequest { request: "b", rows: 1, arrived: 2 * ms, deadline: None });
/// let worker = Capacity { free: true, idle: true, linger: None, size: 4, reserved: 0, arrived_since: None };
/// assert_eq!(queue.decide(2 * ms, &worker, false), Decision::Until(Some(6 * ms)));
/// assert_eq!(queue.decide(6 * ms, &worker, false), Decision::Start(0, FlushReason::Waited));
/// let mut taken = TakenBatch::default();
/// queue.take(&mut taken, 0, 6 * ms, &worker, |_| false);
/// assert_eq!(taken.batch.iter().map(|queued| queued.request).collect::<Vec<_>>(), ["b", "a"]);
/// ```
#[derive(Debug)]
pub struct RequestQueue<R> {
    max_wait: Duration,
    greedy: bool,
    /// Maximum queued rows.
    capacity: usize,
    keys: Vec<KeyQueue<R>>,
    /// Queued rows, without blocked requests.
    rows: usize,
    /// Requests waiting for room.
    blocked: VecDeque<(u64, Priority, QueuedRequest<R>)>,
    /// Lower bound of all deadlines. The request that had it may be gone.
    deadline: Option<Duration>,
}

impl<R> KeyQueue<R> {
    fn new(key: u64) -> Self {
        Self { key, rows: 0, by_priority: std::array::from_fn(|_| VecDeque::new()) }
    }

    fn is_empty(&self) -> bool {
        self.by_priority.iter().all(VecDeque::is_empty)
    }

    /// Arrival time of the oldest request.
    fn oldest(&self) -> Option<Duration> {
        self.by_priority.iter().filter_map(|queued| queued.front()).map(|first| first.arrived).min()
    }

    /// The priority to take from next, and its urgency.
    fn next(&self, now: Duration, max_wait: Duration) -> Option<(u64, usize)> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let age = nanos(max_wait.saturating_mul(AGEING)).max(1);
        let urgency = |(priority, queued): (usize, &VecDeque<QueuedRequest<R>>)| {
            let raised = nanos(now.saturating_sub(queued.front()?.arrived)) / age;
            Some((raised.saturating_add(priority as u64), priority))
        };
        self.by_priority.iter().enumerate().filter_map(urgency).max()
    }

    /// The priority of all requests, if it is the same.
    fn only(&self) -> Option<usize> {
        let mut some = self.by_priority.iter().enumerate().filter(|(_, queued)| !queued.is_empty());
        some.next().map(|(priority, _)| priority).filter(|_| some.next().is_none())
    }
}

impl<R> RequestQueue<R> {
    /// An empty queue.
    #[must_use]
    pub fn new(config: &BatchConfig) -> Self {
        Self {
            max_wait: config.max_wait,
            greedy: config.greedy,
            capacity: config.capacity(),
            keys: Vec::new(),
            rows: 0,
            blocked: VecDeque::new(),
            deadline: None,
        }
    }

    /// Queued rows, without those of blocked requests.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Requests waiting for room.
    #[must_use]
    pub fn blocked_requests(&self) -> usize {
        self.blocked.len()
    }

    /// Whether there is room for a request of `rows` rows.
    #[must_use]
    pub fn has_room(&self, rows: usize) -> bool {
        self.blocked.is_empty() && self.fits(rows)
    }

    fn fits(&self, rows: usize) -> bool {
        self.rows == 0 || self.rows.saturating_add(rows) <= self.capacity
    }

    /// Changes the limits. Queued requests stay queued.
    pub fn set_limits(&mut self, capacity: usize, max_wait: Duration) {
        (self.capacity, self.max_wait) = (capacity, max_wait);
        self.unblock();
    }

    /// Adds a request; it is blocked if there is no room.
    pub fn push(&mut self, key: u64, priority: Priority, queued: QueuedRequest<R>) {
        self.deadline = self.deadline.into_iter().chain(queued.deadline).min();
        if self.has_room(queued.rows) {
            self.enter(key, priority, queued);
        } else {
            self.blocked.push_back((key, priority, queued));
        }
    }

    fn enter(&mut self, key: u64, priority: Priority, queued: QueuedRequest<R>) {
        self.rows += queued.rows;
        let at = self.keys.iter().position(|own| own.key == key).unwrap_or_else(|| {
            match self.keys.iter().position(KeyQueue::is_empty) {
                Some(spare) if self.keys.len() >= SPARE_KEYS => {
                    self.keys[spare].key = key;
                    spare
                }
                _ => {
                    self.keys.push(KeyQueue::new(key));
                    self.keys.len() - 1
                }
            }
        });
        let own = &mut self.keys[at];
        own.rows += queued.rows;
        own.by_priority[priority as usize].push_back(queued);
    }

    fn unblock(&mut self) {
        while let Some((_, _, first)) = self.blocked.front() {
            if !self.fits(first.rows) {
                break;
            }
            if let Some((key, priority, queued)) = self.blocked.pop_front() {
                self.enter(key, priority, queued);
            }
        }
    }

    /// What a worker should do. When the batcher is closing, all queued requests start.
    #[must_use]
    pub fn decide(&self, now: Duration, worker: &Capacity, closing: bool) -> Decision {
        if !worker.free || self.rows <= worker.reserved {
            return Decision::Until(self.deadline);
        }
        let due = |own: &KeyQueue<R>| match own.oldest()? {
            _ if own.rows.saturating_sub(worker.reserved) >= worker.size => Some(FlushReason::Full),
            oldest if now.saturating_sub(oldest) >= self.max_wait => Some(FlushReason::Waited),
            _ if closing => Some(FlushReason::Closing),
            _ if worker.idle && self.greedy && worker.linger.is_none() => Some(FlushReason::Idle),
            _ => None,
        };
        let mut ready = self.keys.iter().filter_map(|own| Some((own, due(own)?)));
        let first = match &self.keys[..] {
            [_] => ready.next(),
            _ => ready.max_by_key(|(own, _)| {
                (own.next(now, self.max_wait).map(|(urgency, _)| urgency), Reverse(own.oldest()))
            }),
        };
        if let Some((own, reason)) = first {
            return Decision::Start(own.key, reason);
        }
        let oldest = self.keys.iter().filter_map(KeyQueue::oldest).min();
        let waited = oldest.map(|oldest| oldest + self.max_wait);
        let back = worker.linger.filter(|_| worker.idle && self.greedy).map(|target| target.until);
        Decision::Until(waited.into_iter().chain(back).chain(self.deadline).min())
    }

    /// Takes the batch of a key for a worker: the most urgent requests first, as many rows as allowed. Also takes out
    /// requests that have expired, whose callers have gone (`is_gone`), or that would be answered too late.
    pub fn take(
        &mut self,
        taken: &mut TakenBatch<R>,
        key: u64,
        now: Duration,
        worker: &Capacity,
        is_gone: impl Fn(&R) -> bool,
    ) {
        let Some(own) = self.keys.iter_mut().find(|own| own.key == key) else { return };
        let most = worker.size.min(self.rows.saturating_sub(worker.reserved)).max(1);
        let only = own.only();
        while let Some(priority) = only.or_else(|| own.next(now, self.max_wait).map(|(_, priority)| priority)) {
            let fits = |first: &mut QueuedRequest<R>| taken.batch.is_empty() || taken.rows + first.rows <= most;
            let Some(first) = own.by_priority[priority].pop_front_if(fits) else { break };
            own.rows -= first.rows;
            self.rows -= first.rows;
            if is_gone(&first.request) {
                taken.gone.push(first.request);
            } else if first.is_late(now) {
                taken.expired.push(first.request);
            } else if worker.arrived_since.is_some_and(|since| first.arrived < since) {
                taken.shed.push(first.request);
            } else {
                taken.rows += first.rows;
                taken.batch.push(first);
            }
        }
        if self.keys.len() > SPARE_KEYS {
            self.keys.retain(|own| !own.is_empty());
        }
        self.unblock();
        if self.rows == 0 {
            self.deadline = None;
        }
    }

    /// Removes requests that have expired.
    pub fn expire(&mut self, now: Duration, expired: &mut Vec<R>) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.remove(|queued| queued.is_late(now), expired);
        let inside = self.keys.iter().flat_map(|own| own.by_priority.iter().flatten());
        let all = inside.chain(self.blocked.iter().map(|(_, _, queued)| queued));
        self.deadline = all.filter_map(|queued| queued.deadline).min();
    }

    /// Removes requests whose callers have gone.
    pub fn sweep(&mut self, is_gone: impl Fn(&R) -> bool, gone: &mut Vec<R>) {
        self.remove(|queued| is_gone(&queued.request), gone);
    }

    fn remove(&mut self, which: impl Fn(&QueuedRequest<R>) -> bool, removed: &mut Vec<R>) {
        for own in &mut self.keys {
            for queued in &mut own.by_priority {
                for _ in 0..queued.len() {
                    let Some(one) = queued.pop_front() else { break };
                    if which(&one) {
                        own.rows -= one.rows;
                        self.rows -= one.rows;
                        removed.push(one.request);
                    } else {
                        queued.push_back(one);
                    }
                }
            }
        }
        for _ in 0..self.blocked.len() {
            match self.blocked.pop_front() {
                Some((_, _, one)) if which(&one) => removed.push(one.request),
                Some(one) => self.blocked.push_back(one),
                None => {}
            }
        }
        self.unblock();
    }
}

/// Requests taken out of a queue. Passed in empty, so that its memory is reused.
#[derive(Debug)]
pub struct TakenBatch<R> {
    /// The batch.
    pub batch: Vec<QueuedRequest<R>>,
    /// Its rows.
    pub rows: usize,
    /// Requests that have expired.
    pub expired: Vec<R>,
    /// Requests whose callers have gone.
    pub gone: Vec<R>,
    /// Requests that would be answered too late.
    pub shed: Vec<R>,
}

impl<R> Default for TakenBatch<R> {
    fn default() -> Self {
        Self { batch: Vec::new(), rows: 0, expired: Vec::new(), gone: Vec::new(), shed: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
