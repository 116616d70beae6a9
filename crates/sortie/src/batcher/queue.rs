//! Who waits, and when and with whom each flies. Pure: time is an argument, so that every rule can be tested without a clock.
//!
//! Requests wait by key, because different keys never share a batch, and by priority. A batch is of one key, the one whose first request is the
//! most urgent: higher priorities go first, but every [`AGEING`] times `max_wait` that a request has waited lifts it by one, so that none waits for ever.

use std::{collections::VecDeque, time::Duration};

use super::config::BatchConfig;

/// How many of `max_wait` make up for one priority.
const AGEING: u32 = 4;

/// How urgent a request is.
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
    config: BatchConfig,
    lines: Vec<Line<R>>,
    rows: usize,
    /// Requests that have a deadline: most have none, and then there is nothing to look for.
    deadlines: usize,
}

impl<R> Line<R> {
    /// How long the request that has waited longest has.
    fn oldest(&self) -> Option<Duration> {
        self.waiting.iter().filter_map(|waiting| waiting.front()).map(|first| first.arrived).min()
    }

    /// The priority to take from next, and how urgent it is.
    fn next(&self, now: Duration, max_wait: Duration) -> Option<(u64, usize)> {
        let age = max_wait.saturating_mul(AGEING).as_nanos().max(1);
        let urgency = |(priority, waiting): (usize, &VecDeque<Waiting<R>>)| {
            let waited = now.saturating_sub(waiting.front()?.arrived).as_nanos();
            let lifted = u64::try_from(waited / age).unwrap_or(u64::MAX);
            Some((lifted.saturating_add(priority as u64), priority))
        };
        self.waiting.iter().enumerate().filter_map(urgency).max()
    }
}

impl<R> Queue<R> {
    pub(super) fn new(config: BatchConfig) -> Self {
        Self { config, lines: Vec::new(), rows: 0, deadlines: 0 }
    }

    /// Rows that wait.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether so many rows more may wait.
    pub(super) fn has_room(&self, rows: usize) -> bool {
        self.rows == 0 || self.rows.saturating_add(rows) <= self.config.capacity()
    }

    pub(super) fn push(&mut self, key: u64, priority: Priority, waiting: Waiting<R>) {
        self.rows += waiting.rows;
        self.deadlines += usize::from(waiting.deadline.is_some());
        let at = self.lines.iter().position(|line| line.key == key).unwrap_or_else(|| {
            self.lines.push(Line { key, rows: 0, waiting: std::array::from_fn(|_| VecDeque::new()) });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        line.rows += waiting.rows;
        line.waiting[priority as usize].push_back(waiting);
    }

    /// What to do with so many flights under way.
    pub(super) fn decide(&self, now: Duration, flying: usize, closing: bool) -> Decision {
        if self.lines.is_empty() {
            return Decision::Until(None);
        }
        let expires = if self.deadlines > 0 { self.earliest_deadline() } else { None };
        if flying >= self.config.in_flight.max(1) {
            return Decision::Until(expires);
        }
        let due = |line: &Line<R>| match line.oldest() {
            _ if line.rows >= self.config.max_batch_size => Some(Reason::Full),
            Some(oldest) if now.saturating_sub(oldest) >= self.config.max_wait => Some(Reason::Waited),
            _ if closing => Some(Reason::Closing),
            _ if flying == 0 && self.config.greedy => Some(Reason::Idle),
            _ => None,
        };
        let ready = self.lines.iter().filter_map(|line| {
            let (urgency, _) = line.next(now, self.config.max_wait)?;
            Some((urgency, std::cmp::Reverse(line.oldest()?), line.key, due(line)?))
        });
        if let Some((_, _, key, reason)) = ready.max_by_key(|(urgency, oldest, ..)| (*urgency, *oldest)) {
            return Decision::Fly(key, reason);
        }
        let waited = self.lines.iter().filter_map(Line::oldest).min().map(|oldest| oldest + self.config.max_wait);
        Decision::Until(waited.into_iter().chain(expires).min())
    }

    /// Takes the batch of a key: the most urgent first, as many rows as a batch may have. What has expired goes to `expired` instead.
    pub(super) fn take(&mut self, key: u64, now: Duration, expired: &mut Vec<R>) -> Vec<Waiting<R>> {
        let Some(at) = self.lines.iter().position(|line| line.key == key) else { return Vec::new() };
        let (most, line) = (self.config.max_batch_size, &mut self.lines[at]);
        let (mut taken, mut rows) = (Vec::new(), 0);
        while let Some((_, priority)) = line.next(now, self.config.max_wait) {
            let waiting = &mut line.waiting[priority];
            let fits = |first: &Waiting<R>| taken.is_empty() || rows + first.rows <= most;
            let Some(first) = waiting.pop_front_if(|first| fits(first)) else { break };
            line.rows -= first.rows;
            self.rows -= first.rows;
            self.deadlines -= usize::from(first.deadline.is_some());
            if first.deadline.is_some_and(|deadline| deadline <= now) {
                expired.push(first.request);
            } else {
                rows += first.rows;
                taken.push(first);
            }
        }
        if line.waiting.iter().all(VecDeque::is_empty) {
            self.lines.swap_remove(at);
        }
        taken
    }

    /// Takes out what has expired.
    pub(super) fn expire(&mut self, now: Duration, expired: &mut Vec<R>) {
        if self.deadlines == 0 {
            return;
        }
        for line in &mut self.lines {
            for waiting in &mut line.waiting {
                let over = |one: &Waiting<R>| one.deadline.is_some_and(|deadline| deadline <= now);
                while let Some(at) = waiting.iter().position(over) {
                    let Some(one) = waiting.remove(at) else { break };
                    line.rows -= one.rows;
                    self.rows -= one.rows;
                    self.deadlines -= 1;
                    expired.push(one.request);
                }
            }
        }
        self.lines.retain(|line| line.waiting.iter().any(|waiting| !waiting.is_empty()));
    }

    fn earliest_deadline(&self) -> Option<Duration> {
        let all = self.lines.iter().flat_map(|line| line.waiting.iter().flatten());
        all.filter_map(|waiting| waiting.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn config() -> BatchConfig {
        BatchConfig { max_batch_size: 4, max_wait: 5 * MS, greedy: false, ..BatchConfig::default() }
    }

    fn request(queue: &mut Queue<u32>, at: u32, number: u32) {
        queue.push(0, Priority::Normal, one(at, number));
    }

    fn one(at: u32, request: u32) -> Waiting<u32> {
        Waiting { request, rows: 1, arrived: at * MS, deadline: None }
    }

    fn numbers(taken: &[Waiting<u32>]) -> Vec<u32> {
        taken.iter().map(|waiting| waiting.request).collect()
    }

    #[test]
    fn a_batch_flies_when_it_is_full_or_its_oldest_request_has_waited() {
        let mut queue = Queue::new(config());
        assert_eq!(queue.decide(MS, 0, false), Decision::Until(None));
        request(&mut queue, 1, 1);
        request(&mut queue, 2, 2);
        assert_eq!(queue.decide(2 * MS, 0, false), Decision::Until(Some(6 * MS)));
        assert_eq!(queue.decide(6 * MS, 0, false), Decision::Fly(0, Reason::Waited));
        request(&mut queue, 3, 3);
        request(&mut queue, 3, 4);
        request(&mut queue, 3, 5);
        assert_eq!(queue.decide(3 * MS, 1, false), Decision::Fly(0, Reason::Full));
        assert_eq!(numbers(&queue.take(0, 3 * MS, &mut Vec::new())), [1, 2, 3, 4]);
        assert_eq!(queue.decide(3 * MS, 0, false), Decision::Until(Some(8 * MS)));
    }

    #[test]
    fn nothing_flies_while_enough_is_under_way() {
        let mut queue = Queue::new(config());
        (0..9).for_each(|number| request(&mut queue, 0, number));
        assert_eq!(queue.decide(99 * MS, 2, false), Decision::Until(None));
        assert_eq!(queue.decide(99 * MS, 1, false), Decision::Fly(0, Reason::Full));
    }

    #[test]
    fn a_greedy_batch_flies_when_nothing_is_under_way() {
        let mut queue = Queue::new(BatchConfig { greedy: true, ..config() });
        request(&mut queue, 1, 1);
        assert_eq!(queue.decide(MS, 0, false), Decision::Fly(0, Reason::Idle));
        assert_eq!(queue.decide(MS, 1, false), Decision::Until(Some(6 * MS)));
    }

    #[test]
    fn closing_flies_all_that_waits() {
        let mut queue = Queue::new(config());
        request(&mut queue, 1, 1);
        assert_eq!(queue.decide(MS, 1, true), Decision::Fly(0, Reason::Closing));
    }

    #[test]
    fn different_keys_never_share_a_batch_and_the_one_that_waited_longer_goes_first() {
        let mut queue = Queue::new(config());
        queue.push(7, Priority::Normal, one(2, 1));
        queue.push(8, Priority::Normal, one(1, 2));
        queue.push(7, Priority::Normal, one(3, 3));
        assert_eq!(queue.decide(9 * MS, 0, false), Decision::Fly(8, Reason::Waited));
        assert_eq!(numbers(&queue.take(8, 9 * MS, &mut Vec::new())), [2]);
        assert_eq!(queue.decide(9 * MS, 0, false), Decision::Fly(7, Reason::Waited));
        assert_eq!(numbers(&queue.take(7, 9 * MS, &mut Vec::new())), [1, 3]);
        assert_eq!(queue.rows(), 0);
    }

    #[test]
    fn higher_priorities_go_first_and_age_makes_up_for_them() {
        let mut queue = Queue::new(BatchConfig { max_batch_size: 1, ..config() });
        queue.push(0, Priority::Low, one(0, 1));
        queue.push(0, Priority::Normal, one(0, 2));
        queue.push(0, Priority::High, one(0, 3));
        assert_eq!(numbers(&queue.take(0, MS, &mut Vec::new())), [3]);
        assert_eq!(numbers(&queue.take(0, MS, &mut Vec::new())), [2]);
        // 4 × 5 ms lift it by one: above a normal one that has just come, and level with a high one.
        queue.push(0, Priority::Normal, one(45, 4));
        assert_eq!(numbers(&queue.take(0, 45 * MS, &mut Vec::new())), [1]);
    }

    #[test]
    fn rows_count_and_one_that_is_too_large_flies_alone() {
        let mut queue = Queue::new(config());
        for (number, rows) in [(1, 3), (2, 2), (3, 9), (4, 1)] {
            queue.push(0, Priority::Normal, Waiting { rows, ..one(0, number) });
        }
        let mut take = || numbers(&queue.take(0, MS, &mut Vec::new()));
        assert_eq!([take(), take(), take(), take()], [vec![1], vec![2], vec![3], vec![4]]);
    }

    #[test]
    fn there_is_room_for_four_batches_and_always_for_one_request() {
        let mut queue = Queue::new(config());
        assert!(queue.has_room(100));
        queue.push(0, Priority::Normal, Waiting { rows: 15, ..one(0, 1) });
        assert!(queue.has_room(1));
        assert!(!queue.has_room(2));
    }

    #[test]
    fn what_has_expired_is_found_on_the_timer_and_when_a_batch_is_taken() {
        let mut queue = Queue::new(config());
        queue.push(0, Priority::Normal, Waiting { deadline: Some(3 * MS), ..one(0, 1) });
        queue.push(0, Priority::Normal, one(0, 2));
        assert_eq!(queue.decide(MS, 2, false), Decision::Until(Some(3 * MS)));
        let mut expired = Vec::new();
        queue.expire(2 * MS, &mut expired);
        assert_eq!(expired, []);
        assert_eq!(numbers(&queue.take(0, 5 * MS, &mut expired)), [2]);
        assert_eq!(expired, [1]);
        queue.push(0, Priority::Normal, Waiting { deadline: Some(9 * MS), ..one(8, 3) });
        queue.expire(9 * MS, &mut expired);
        assert_eq!((expired, queue.rows()), (vec![1, 3], 0));
        assert_eq!(queue.decide(9 * MS, 0, false), Decision::Until(None));
    }

    /// What may happen to a batcher.
    #[derive(Clone, Debug)]
    enum Event {
        Arrive {
            key: u64,
            priority: Priority,
            rows: usize,
            patience: Option<u32>,
        },
        /// Some milliseconds pass.
        Pass(u32),
        Land,
        Close,
    }

    fn event() -> impl Strategy<Value = Event> {
        let priority = prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::High)];
        let arrive = (0..3_u64, priority, 1..7_usize, prop::option::of(1..20_u32))
            .prop_map(|(key, priority, rows, patience)| Event::Arrive { key, priority, rows, patience });
        prop_oneof![8 => arrive, 3 => (0..8_u32).prop_map(Event::Pass), 3 => Just(Event::Land), 1 => Just(Event::Close)]
    }

    /// Runs a queue as its thread does, and checks every step.
    fn live(events: Vec<Event>, config: BatchConfig) -> Result<(), TestCaseError> {
        let mut queue = Queue::new(config);
        let (mut now, mut flying, mut closing) = (Duration::ZERO, 0, false);
        // By number: key, priority, arrival, deadline; and what has become of them.
        let mut known: Vec<(u64, Priority, Duration, Option<Duration>)> = Vec::new();
        let mut over: Vec<u32> = Vec::new();
        let mut rows = Vec::new();
        let end = [Event::Close, Event::Land, Event::Land, Event::Land, Event::Pass(100)];
        for event in events.into_iter().chain(end) {
            match event {
                Event::Arrive { key, priority, rows: own, patience } if !closing && queue.has_room(own) => {
                    let deadline = patience.map(|patience| now + patience * MS);
                    let request = u32::try_from(known.len()).expect("few");
                    known.push((key, priority, now, deadline));
                    rows.push(own);
                    queue.push(key, priority, Waiting { request, rows: own, arrived: now, deadline });
                }
                Event::Arrive { .. } => {}
                Event::Pass(millis) => now += millis * MS,
                Event::Land => flying = usize::saturating_sub(flying, 1),
                Event::Close => closing = true,
            }
            let mut expired = Vec::new();
            queue.expire(now, &mut expired);
            prop_assert!(expired.iter().all(|late| known[*late as usize].3.is_some_and(|deadline| deadline <= now)));
            over.append(&mut expired);
            loop {
                match queue.decide(now, flying, closing) {
                    Decision::Until(until) => {
                        prop_assert!(until.is_none_or(|until| until > now), "it would not sleep");
                        break;
                    }
                    Decision::Fly(key, reason) => {
                        prop_assert!(flying < config.in_flight);
                        let taken = queue.take(key, now, &mut expired);
                        prop_assert!(expired.is_empty(), "they were looked for just before");
                        prop_assert!(!taken.is_empty());
                        let total: usize = taken.iter().map(|one| one.rows).sum();
                        prop_assert!(total <= config.max_batch_size || taken.len() == 1);
                        prop_assert!(taken.iter().all(|one| known[one.request as usize].0 == key));
                        let waited = taken.iter().map(|one| now - one.arrived).max().unwrap_or_default();
                        match reason {
                            Reason::Full | Reason::Closing => {}
                            Reason::Waited => prop_assert!(waited >= config.max_wait || queue.rows() > 0),
                            Reason::Idle => prop_assert!(flying == 0 && config.greedy),
                        }
                        over.extend(taken.iter().map(|one| one.request));
                        flying += 1;
                        if closing {
                            flying = 0;
                        }
                    }
                }
            }
            let waiting: usize =
                (0..).zip(&rows).filter(|(number, _)| !over.contains(number)).map(|(_, rows)| rows).sum();
            prop_assert_eq!(queue.rows(), waiting);
        }
        let mut all = over.clone();
        all.sort_unstable();
        prop_assert_eq!(all, (0..).take(known.len()).collect::<Vec<u32>>(), "each is taken once");
        // Of one key and priority, and without a deadline, they leave as they came.
        for (place, one) in over.iter().enumerate() {
            for other in &over[..place] {
                let (own, before) = (&known[*one as usize], &known[*other as usize]);
                let alike = (own.0, own.1) == (before.0, before.1) && own.3.is_none() && before.3.is_none();
                prop_assert!(!alike || other < one, "{other} before {one}");
            }
        }
        Ok(())
    }

    #[test]
    fn whatever_happens_each_request_leaves_once_in_order_and_within_the_limits() {
        let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
        let run = ProptestConfig {
            cases: if full { 20_000 } else { 2_000 },
            rng_seed: RngSeed::Fixed(0xba7c_4e00),
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let limits = (1..6_usize, 0..9_u32, 1..4_usize, any::<bool>());
        proptest!(run, |(events in prop::collection::vec(event(), 1..60), (size, wait, in_flight, greedy) in limits)| {
            let config = BatchConfig { max_batch_size: size, max_wait: wait * MS, in_flight, greedy, ..BatchConfig::default() };
            live(events, config)?;
        });
    }
}
