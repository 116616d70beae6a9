//! Who waits, and when and with whom each flies. Pure: time is an argument, so that every rule can be tested without a clock.
//!
//! Requests wait by key, because different keys never share a batch, and by priority. A batch is of one key, the one whose first request is the
//! most urgent: higher priorities go first, but every [`AGEING`] times `max_wait` that a request has waited lifts it by one, so that none waits for ever.
//! Those for whom there is no room wait outside, in the order of their arrival.
//!
//! Invariant: while somebody is outside there is no room for the first of them.

use std::{cmp::Reverse, collections::VecDeque, time::Duration};

use super::{config::BatchConfig, linger::Awaited};

/// How many of `max_wait` make up for one priority.
const AGEING: u32 = 4;
/// Keys that nobody waits under, kept for the memory that their lines have.
const SPARE_LINES: usize = 8;

/// How urgent a request is.
///
/// ```
/// use sortie::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others, though not for ever.
    Low,
    /// As most are.
    #[default]
    Normal,
    /// Before all others.
    High,
}

const PRIORITIES: usize = 3;

/// Why a batch flies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Full,
    Waited,
    Idle,
    Closing,
}

/// A request that waits.
#[derive(Debug, PartialEq)]
pub(super) struct Waiting<R> {
    pub(super) request: R,
    pub(super) rows: usize,
    pub(super) arrived: Duration,
    pub(super) deadline: Option<Duration>,
}

impl<R> Waiting<R> {
    fn is_late(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// A device that could take a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taker {
    /// Whether it may have one more flight under way, and whether it has none.
    pub(super) free: bool,
    pub(super) idle: bool,
    /// Whom it waits for before it takes less than a full batch.
    pub(super) waits: Option<Awaited>,
    /// Rows of a full batch.
    pub(super) size: usize,
    /// Rows that are left to devices which do them sooner.
    pub(super) left: usize,
    /// Requests that arrived before this are rejected: they would be answered too late.
    pub(super) since: Option<Duration>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take the batch of this key.
    Fly(u64, Reason),
    /// Nothing before that, unless somebody arrives or lands.
    Until(Option<Duration>),
}

/// What waits under one key.
#[derive(Debug)]
struct Line<R> {
    key: u64,
    rows: usize,
    waiting: [VecDeque<Waiting<R>>; PRIORITIES],
}

#[derive(Debug)]
pub(super) struct Queue<R> {
    max_wait: Duration,
    greedy: bool,
    /// Most rows that wait inside.
    capacity: usize,
    lines: Vec<Line<R>>,
    /// Rows that wait inside.
    rows: usize,
    /// Who waits for room.
    outside: VecDeque<(u64, Priority, Waiting<R>)>,
    /// No deadline is earlier. Whoever had it may have left.
    deadline: Option<Duration>,
}

impl<R> Line<R> {
    fn new(key: u64) -> Self {
        Self { key, rows: 0, waiting: std::array::from_fn(|_| VecDeque::new()) }
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// When the request that has waited longest came.
    fn oldest(&self) -> Option<Duration> {
        self.waiting.iter().filter_map(|waiting| waiting.front()).map(|first| first.arrived).min()
    }

    /// The priority to take from next, and how urgent it is.
    fn next(&self, now: Duration, max_wait: Duration) -> Option<(u64, usize)> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let age = nanos(max_wait.saturating_mul(AGEING)).max(1);
        let urgency = |(priority, waiting): (usize, &VecDeque<Waiting<R>>)| {
            let lifted = nanos(now.saturating_sub(waiting.front()?.arrived)) / age;
            Some((lifted.saturating_add(priority as u64), priority))
        };
        self.waiting.iter().enumerate().filter_map(urgency).max()
    }

    /// The priority of all that wait, if it is the same.
    fn only(&self) -> Option<usize> {
        let mut some = self.waiting.iter().enumerate().filter(|(_, waiting)| !waiting.is_empty());
        some.next().map(|(priority, _)| priority).filter(|_| some.next().is_none())
    }
}

impl<R> Queue<R> {
    pub(super) fn new(config: &BatchConfig) -> Self {
        Self {
            max_wait: config.max_wait,
            greedy: config.greedy,
            capacity: config.capacity(),
            lines: Vec::new(),
            rows: 0,
            outside: VecDeque::new(),
            deadline: None,
        }
    }

    /// Rows that wait inside.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Requests that wait for room.
    pub(super) fn outside(&self) -> usize {
        self.outside.len()
    }

    /// Whether a request of so many rows would be let in.
    pub(super) fn has_room(&self, rows: usize) -> bool {
        self.outside.is_empty() && self.fits(rows)
    }

    fn fits(&self, rows: usize) -> bool {
        self.rows == 0 || self.rows.saturating_add(rows) <= self.capacity
    }

    /// Other limits from now on. Whoever is in stays in.
    pub(super) fn limit(&mut self, capacity: usize, max_wait: Duration) {
        (self.capacity, self.max_wait) = (capacity, max_wait);
        self.let_in();
    }

    /// Takes a request in, or lets it wait outside.
    pub(super) fn push(&mut self, key: u64, priority: Priority, waiting: Waiting<R>) {
        self.deadline = self.deadline.into_iter().chain(waiting.deadline).min();
        if self.has_room(waiting.rows) {
            self.enter(key, priority, waiting);
        } else {
            self.outside.push_back((key, priority, waiting));
        }
    }

    fn enter(&mut self, key: u64, priority: Priority, waiting: Waiting<R>) {
        self.rows += waiting.rows;
        let at = self.lines.iter().position(|line| line.key == key).unwrap_or_else(|| {
            match self.lines.iter().position(Line::is_empty) {
                Some(spare) if self.lines.len() >= SPARE_LINES => {
                    self.lines[spare].key = key;
                    spare
                }
                _ => {
                    self.lines.push(Line::new(key));
                    self.lines.len() - 1
                }
            }
        });
        let line = &mut self.lines[at];
        line.rows += waiting.rows;
        line.waiting[priority as usize].push_back(waiting);
    }

    fn let_in(&mut self) {
        while let Some((_, _, first)) = self.outside.front() {
            if !self.fits(first.rows) {
                break;
            }
            if let Some((key, priority, waiting)) = self.outside.pop_front() {
                self.enter(key, priority, waiting);
            }
        }
    }

    /// What a device is to do. When the batcher is closing, whatever waits flies.
    pub(super) fn decide(&self, now: Duration, taker: &Taker, closing: bool) -> Decision {
        if !taker.free || self.rows <= taker.left {
            return Decision::Until(self.deadline);
        }
        let due = |line: &Line<R>| match line.oldest()? {
            _ if line.rows.saturating_sub(taker.left) >= taker.size => Some(Reason::Full),
            oldest if now.saturating_sub(oldest) >= self.max_wait => Some(Reason::Waited),
            _ if closing => Some(Reason::Closing),
            _ if taker.idle && self.greedy && taker.waits.is_none() => Some(Reason::Idle),
            _ => None,
        };
        let mut ready = self.lines.iter().filter_map(|line| Some((line, due(line)?)));
        let first = match &self.lines[..] {
            [_] => ready.next(),
            _ => ready.max_by_key(|(line, _)| {
                (line.next(now, self.max_wait).map(|(urgency, _)| urgency), Reverse(line.oldest()))
            }),
        };
        if let Some((line, reason)) = first {
            return Decision::Fly(line.key, reason);
        }
        let oldest = self.lines.iter().filter_map(Line::oldest).min();
        let waited = oldest.map(|oldest| oldest + self.max_wait);
        let back = taker.waits.filter(|_| taker.idle && self.greedy).map(|awaited| awaited.until);
        Decision::Until(waited.into_iter().chain(back).chain(self.deadline).min())
    }

    /// Takes the batch of a key for a device: the most urgent first, as many rows as there may be; and what has expired, is not wanted any more or would be answered too late.
    pub(super) fn take(
        &mut self,
        taken: &mut Taken<R>,
        key: u64,
        now: Duration,
        taker: &Taker,
        gone: impl Fn(&R) -> bool,
    ) {
        let Some(line) = self.lines.iter_mut().find(|line| line.key == key) else { return };
        let most = taker.size.min(self.rows.saturating_sub(taker.left)).max(1);
        let only = line.only();
        while let Some(priority) = only.or_else(|| line.next(now, self.max_wait).map(|(_, priority)| priority)) {
            let fits = |first: &mut Waiting<R>| taken.batch.is_empty() || taken.rows + first.rows <= most;
            let Some(first) = line.waiting[priority].pop_front_if(fits) else { break };
            line.rows -= first.rows;
            self.rows -= first.rows;
            if gone(&first.request) {
                taken.gone.push(first.request);
            } else if first.is_late(now) {
                taken.late.push(first.request);
            } else if taker.since.is_some_and(|since| first.arrived < since) {
                taken.shed.push(first.request);
            } else {
                taken.rows += first.rows;
                taken.batch.push(first);
            }
        }
        if self.lines.len() > SPARE_LINES {
            self.lines.retain(|line| !line.is_empty());
        }
        self.let_in();
    }

    /// Takes out what has expired.
    pub(super) fn expire(&mut self, now: Duration, late: &mut Vec<R>) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.take_out(|waiting| waiting.is_late(now), late);
        let inside = self.lines.iter().flat_map(|line| line.waiting.iter().flatten());
        let all = inside.chain(self.outside.iter().map(|(_, _, waiting)| waiting));
        self.deadline = all.filter_map(|waiting| waiting.deadline).min();
    }

    /// Takes out what nobody wants any more.
    pub(super) fn sweep(&mut self, is_gone: impl Fn(&R) -> bool, gone: &mut Vec<R>) {
        self.take_out(|waiting| is_gone(&waiting.request), gone);
    }

    fn take_out(&mut self, which: impl Fn(&Waiting<R>) -> bool, out: &mut Vec<R>) {
        for line in &mut self.lines {
            for waiting in &mut line.waiting {
                for _ in 0..waiting.len() {
                    let Some(one) = waiting.pop_front() else { break };
                    if which(&one) {
                        line.rows -= one.rows;
                        self.rows -= one.rows;
                        out.push(one.request);
                    } else {
                        waiting.push_back(one);
                    }
                }
            }
        }
        for _ in 0..self.outside.len() {
            match self.outside.pop_front() {
                Some((_, _, one)) if which(&one) => out.push(one.request),
                Some(one) => self.outside.push_back(one),
                None => {}
            }
        }
        self.let_in();
    }
}

/// What was taken out of a queue at once.
#[derive(Debug)]
pub(super) struct Taken<R> {
    pub(super) batch: Vec<Waiting<R>>,
    pub(super) rows: usize,
    pub(super) late: Vec<R>,
    pub(super) gone: Vec<R>,
    pub(super) shed: Vec<R>,
}

impl<R> Default for Taken<R> {
    fn default() -> Self {
        Self { batch: Vec::new(), rows: 0, late: Vec::new(), gone: Vec::new(), shed: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
