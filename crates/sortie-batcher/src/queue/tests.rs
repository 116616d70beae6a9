//! The rules one by one, and random event sequences.

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn config() -> BatchConfig {
    BatchConfig::default().with_max_batch_size(4).with_max_wait(5 * MS).with_greedy(false)
}

/// A device with this many batches of at most two in flight.
fn in_flight(batches: usize) -> Capacity {
    Capacity { free: batches < 2, idle: batches == 0, linger: None, size: 4, reserved: 0, arrived_since: None }
}

fn request(queue: &mut RequestQueue<u32>, at: u32, number: u32) {
    queue.push(0, Priority::Normal, one(at, number));
}

fn one(at: u32, request: u32) -> QueuedRequest<u32> {
    QueuedRequest { request, rows: 1, arrived: at * MS, deadline: None }
}

fn take(queue: &mut RequestQueue<u32>, key: u64, at: u32, size: usize) -> TakenBatch<u32> {
    let mut taken = TakenBatch::default();
    queue.take(&mut taken, key, at * MS, &Capacity { size, ..in_flight(0) }, |_| false);
    taken
}

fn numbers(taken: &TakenBatch<u32>) -> Vec<u32> {
    taken.batch.iter().map(|waiting| waiting.request).collect()
}

#[test]
fn a_batch_flies_when_it_is_full_or_its_oldest_request_has_waited() {
    let mut queue = RequestQueue::new(&config());
    assert_eq!(queue.decide(MS, &in_flight(0), false), Decision::Until(None));
    request(&mut queue, 1, 1);
    request(&mut queue, 2, 2);
    assert_eq!(queue.decide(2 * MS, &in_flight(0), false), Decision::Until(Some(6 * MS)));
    assert_eq!(queue.decide(6 * MS, &in_flight(0), false), Decision::Start(0, FlushReason::Waited));
    request(&mut queue, 3, 3);
    request(&mut queue, 3, 4);
    request(&mut queue, 3, 5);
    assert_eq!(queue.decide(3 * MS, &in_flight(1), false), Decision::Start(0, FlushReason::Full));
    assert_eq!(numbers(&take(&mut queue, 0, 3, 4)), [1, 2, 3, 4]);
    assert_eq!(queue.decide(3 * MS, &in_flight(0), false), Decision::Until(Some(8 * MS)));
}

#[test]
fn waits_shorter_than_a_millisecond_are_kept() {
    let us = Duration::from_micros(1);
    let mut queue = RequestQueue::new(&config().with_max_wait(30 * us));
    queue.push(0, Priority::Normal, QueuedRequest { arrived: 7 * us, ..one(0, 1) });
    assert_eq!(queue.decide(36 * us, &in_flight(1), false), Decision::Until(Some(37 * us)));
    assert_eq!(queue.decide(37 * us, &in_flight(1), false), Decision::Start(0, FlushReason::Waited));
}

#[test]
fn nothing_flies_while_enough_is_under_way() {
    let mut queue = RequestQueue::new(&config());
    (0..9).for_each(|number| request(&mut queue, 0, number));
    assert_eq!(queue.decide(99 * MS, &in_flight(2), false), Decision::Until(None));
    assert_eq!(queue.decide(99 * MS, &in_flight(1), false), Decision::Start(0, FlushReason::Full));
}

#[test]
fn a_greedy_batch_flies_when_nothing_is_under_way() {
    let mut queue = RequestQueue::new(&config().with_greedy(true));
    request(&mut queue, 1, 1);
    assert_eq!(queue.decide(MS, &in_flight(0), false), Decision::Start(0, FlushReason::Idle));
    assert_eq!(queue.decide(MS, &in_flight(1), false), Decision::Until(Some(6 * MS)));
}

#[test]
fn a_greedy_batch_waits_for_callers_who_come_back() {
    let mut queue = RequestQueue::new(&config().with_greedy(true));
    request(&mut queue, 1, 1);
    let waits = Capacity { linger: Some(LingerTarget { rows: 4, until: 3 * MS }), ..in_flight(0) };
    assert_eq!(queue.decide(MS, &waits, false), Decision::Until(Some(3 * MS)));
    (2..5).for_each(|number| request(&mut queue, 1, number));
    assert_eq!(queue.decide(MS, &waits, false), Decision::Start(0, FlushReason::Full));
}

#[test]
fn closing_flies_all_that_waits() {
    let mut queue = RequestQueue::new(&config());
    request(&mut queue, 1, 1);
    assert_eq!(queue.decide(MS, &in_flight(1), true), Decision::Start(0, FlushReason::Closing));
}

#[test]
fn what_is_left_to_others_is_not_taken() {
    let mut queue = RequestQueue::new(&config().with_greedy(true));
    (0..7).for_each(|number| request(&mut queue, 0, number));
    let capacity = |left| Capacity { reserved: left, ..in_flight(0) };
    assert_eq!(queue.decide(MS, &capacity(7), false), Decision::Until(None));
    assert_eq!(queue.decide(MS, &capacity(4), false), Decision::Start(0, FlushReason::Idle));
    assert_eq!(queue.decide(MS, &capacity(3), false), Decision::Start(0, FlushReason::Full));
    let mut taken = TakenBatch::default();
    queue.take(&mut taken, 0, MS, &capacity(5), |_| false);
    assert_eq!(numbers(&taken), [0, 1]);
}

#[test]
fn different_keys_never_share_a_batch_and_the_longest_waiting_starts_first() {
    let mut queue = RequestQueue::new(&config());
    queue.push(7, Priority::Normal, one(2, 1));
    queue.push(8, Priority::Normal, one(1, 2));
    queue.push(7, Priority::Normal, one(3, 3));
    assert_eq!(queue.decide(9 * MS, &in_flight(0), false), Decision::Start(8, FlushReason::Waited));
    assert_eq!(numbers(&take(&mut queue, 8, 9, 4)), [2]);
    assert_eq!(queue.decide(9 * MS, &in_flight(0), false), Decision::Start(7, FlushReason::Waited));
    assert_eq!(numbers(&take(&mut queue, 7, 9, 4)), [1, 3]);
    assert_eq!(queue.rows(), 0);
}

#[test]
fn queues_of_unused_keys_are_removed() {
    let mut queue = RequestQueue::new(&config().with_queue_capacity(1000));
    (0..100).for_each(|key| queue.push(key, Priority::Normal, one(0, 0)));
    (0..100).for_each(|key| assert_eq!(numbers(&take(&mut queue, key, 0, 4)), [0]));
    (100..200).for_each(|key| {
        queue.push(key, Priority::Normal, one(0, 0));
        assert_eq!(numbers(&take(&mut queue, key, 0, 4)), [0]);
    });
    assert!(queue.keys.len() <= SPARE_KEYS, "{}", queue.keys.len());
}

#[test]
fn higher_priorities_go_first_and_age_makes_up_for_them() {
    let mut queue = RequestQueue::new(&config());
    queue.push(0, Priority::Low, one(0, 1));
    queue.push(0, Priority::Normal, one(0, 2));
    queue.push(0, Priority::High, one(0, 3));
    assert_eq!(numbers(&take(&mut queue, 0, 1, 1)), [3]);
    assert_eq!(numbers(&take(&mut queue, 0, 1, 1)), [2]);
    // 4 × 5 ms raise it by one: above a new normal request, and level with a high one.
    queue.push(0, Priority::Normal, one(45, 4));
    assert_eq!(numbers(&take(&mut queue, 0, 45, 1)), [1]);
}

#[test]
fn rows_count_and_one_that_is_too_large_flies_alone() {
    let mut queue = RequestQueue::new(&config());
    for (number, rows) in [(1, 3), (2, 2), (3, 9), (4, 1)] {
        queue.push(0, Priority::Normal, QueuedRequest { rows, ..one(0, number) });
    }
    let mut take = || numbers(&take(&mut queue, 0, 1, 4));
    assert_eq!([take(), take(), take(), take()], [vec![1], vec![2], vec![3], vec![4]]);
}

#[test]
fn there_is_room_for_four_batches_and_always_for_one_request() {
    let mut queue = RequestQueue::new(&config());
    assert!(queue.has_room(100));
    queue.push(0, Priority::Normal, QueuedRequest { rows: 15, ..one(0, 1) });
    assert!(queue.has_room(1));
    assert!(!queue.has_room(2));
}

#[test]
fn without_room_they_wait_outside_in_order_whatever_their_size() {
    let mut queue = RequestQueue::new(&config());
    for (number, rows) in [(1, 15), (2, 2), (3, 1), (4, 1)] {
        queue.push(0, Priority::High, QueuedRequest { rows, ..one(0, number) });
    }
    // There would be room for the third, but the second was first.
    assert_eq!((queue.rows(), queue.blocked_requests(), queue.has_room(1)), (15, 3, false));
    assert_eq!(numbers(&take(&mut queue, 0, 1, 4)), [1]);
    assert_eq!((queue.rows(), queue.blocked_requests()), (4, 0));
    assert_eq!(numbers(&take(&mut queue, 0, 1, 4)), [2, 3, 4]);
    queue.push(0, Priority::High, one(0, 5));
    queue.push(0, Priority::High, QueuedRequest { rows: 16, ..one(0, 6) });
    assert_eq!(queue.blocked_requests(), 1);
    queue.set_limits(99, MS);
    assert_eq!((queue.rows(), queue.blocked_requests()), (17, 0));
}

#[test]
fn what_has_expired_is_found_on_the_timer_and_when_a_batch_is_taken() {
    let mut queue = RequestQueue::new(&config());
    queue.push(0, Priority::Normal, QueuedRequest { deadline: Some(3 * MS), ..one(0, 1) });
    queue.push(0, Priority::Normal, one(0, 2));
    assert_eq!(queue.decide(MS, &in_flight(2), false), Decision::Until(Some(3 * MS)));
    let mut late = Vec::new();
    queue.expire(2 * MS, &mut late);
    assert_eq!(late, []);
    let taken = take(&mut queue, 0, 5, 4);
    assert_eq!((numbers(&taken), taken.expired), (vec![2], vec![1]));
    queue.push(0, Priority::Normal, QueuedRequest { deadline: Some(9 * MS), ..one(8, 3) });
    queue.expire(9 * MS, &mut late);
    assert_eq!((late, queue.rows()), (vec![3], 0));
    assert_eq!(queue.decide(9 * MS, &in_flight(0), false), Decision::Until(None));
}

#[test]
fn who_waits_outside_expires_too() {
    let mut queue = RequestQueue::new(&config());
    queue.push(0, Priority::Normal, QueuedRequest { rows: 16, ..one(0, 1) });
    queue.push(0, Priority::Normal, QueuedRequest { deadline: Some(3 * MS), ..one(0, 2) });
    assert_eq!(queue.decide(MS, &in_flight(2), false), Decision::Until(Some(3 * MS)));
    let mut late = Vec::new();
    queue.expire(3 * MS, &mut late);
    assert_eq!((late, queue.blocked_requests()), (vec![2], 0));
}

#[test]
fn dropped_callers_take_no_place_in_a_batch_and_can_be_swept_out() {
    let mut queue = RequestQueue::new(&config());
    (0..12).for_each(|number| request(&mut queue, 0, number));
    let mut taken = TakenBatch::default();
    queue.take(&mut taken, 0, MS, &in_flight(0), |number| number % 2 == 0);
    assert_eq!((numbers(&taken), taken.gone), (vec![1, 3, 5, 7], vec![0, 2, 4, 6]));
    let mut gone = Vec::new();
    queue.sweep(|number| *number < 11, &mut gone);
    assert_eq!((gone, queue.rows()), (vec![8, 9, 10], 1));
}

#[test]
fn what_would_be_answered_too_late_takes_no_place_in_a_batch() {
    let mut queue = RequestQueue::new(&config());
    (1..=6).for_each(|at| request(&mut queue, at, at));
    let mut taken = TakenBatch::default();
    queue.take(&mut taken, 0, 7 * MS, &Capacity { arrived_since: Some(3 * MS), ..in_flight(0) }, |_| false);
    assert_eq!((numbers(&taken), taken.shed, queue.rows()), (vec![3, 4, 5, 6], vec![1, 2], 0));
}

/// Events of a batcher.
#[derive(Clone, Debug)]
enum Event {
    Arrive {
        key: u64,
        priority: Priority,
        rows: usize,
        patience: Option<u32>,
    },
    /// The caller of an earlier request is dropped.
    Cancel(prop::sample::Index),
    /// Some milliseconds pass.
    Pass(u32),
    /// The first batch in flight succeeds.
    Complete,
    /// It fails.
    Fail,
    /// Requests of dropped callers are removed.
    Sweep,
    /// The queue has room for this many rows.
    Limit(usize),
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    let priority = prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::High)];
    let arrive = (0..3_u64, priority, 1..7_usize, prop::option::of(1..20_u32))
        .prop_map(|(key, priority, rows, patience)| Event::Arrive { key, priority, rows, patience });
    prop_oneof![
        8 => arrive,
        2 => any::<prop::sample::Index>().prop_map(Event::Cancel),
        3 => (0..8_u32).prop_map(Event::Pass),
        2 => Just(Event::Complete),
        1 => Just(Event::Fail),
        1 => Just(Event::Sweep),
        1 => (1..30_usize).prop_map(Event::Limit),
        1 => Just(Event::Close),
    ]
}

/// A request of the test, and its outcome.
#[derive(Debug)]
struct Known {
    key: u64,
    priority: Priority,
    rows: usize,
    deadline: Option<Duration>,
    gone: bool,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Answered,
    Failed,
    Expired,
    Canceled,
}

struct Life {
    config: BatchConfig,
    queue: RequestQueue<usize>,
    known: Vec<Known>,
    /// In flight.
    in_flight: VecDeque<Vec<usize>>,
    now: Duration,
    closing: bool,
    /// The order in which they were started.
    started: Vec<usize>,
}

impl Life {
    fn ends(&mut self, number: usize, end: End) -> Result<(), TestCaseError> {
        let before = self.known[number].end.replace(end);
        prop_assert_eq!(before, None, "{} has ended already", number);
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Arrive { key, priority, rows, patience } if !self.closing => {
                let deadline = patience.map(|patience| self.now + patience * MS);
                let number = self.known.len();
                self.known.push(Known { key, priority, rows, deadline, gone: false, end: None });
                let waiting = QueuedRequest { request: number, rows, arrived: self.now, deadline };
                self.queue.push(key, priority, waiting);
            }
            Event::Arrive { .. } => {}
            Event::Cancel(_) if self.known.is_empty() => {}
            Event::Cancel(which) => which.get_mut(&mut self.known).gone = true,
            Event::Pass(millis) => self.now += millis * MS,
            Event::Complete | Event::Fail => {
                let end = if matches!(event, Event::Fail) { End::Failed } else { End::Answered };
                for number in self.in_flight.pop_front().unwrap_or_default() {
                    self.ends(number, end)?;
                }
            }
            Event::Sweep => {
                let mut gone = Vec::new();
                self.queue.sweep(|number| self.known[*number].gone, &mut gone);
                for number in gone {
                    prop_assert!(self.known[number].gone);
                    self.ends(number, End::Canceled)?;
                }
            }
            Event::Limit(capacity) => self.queue.set_limits(capacity, self.config.max_wait),
            Event::Close => self.closing = true,
        }
        self.settle()
    }

    /// What the worker thread does until it sleeps.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let mut late = Vec::new();
        self.queue.expire(self.now, &mut late);
        for number in late {
            prop_assert!(self.known[number].deadline.is_some_and(|deadline| deadline <= self.now));
            self.ends(number, End::Expired)?;
        }
        loop {
            let batches = self.in_flight.len();
            let (free, idle) = (batches < self.config.in_flight, batches == 0);
            let capacity = Capacity {
                free,
                idle,
                linger: None,
                size: self.config.max_batch_size,
                reserved: 0,
                arrived_since: None,
            };
            match self.queue.decide(self.now, &capacity, self.closing) {
                Decision::Until(until) => {
                    prop_assert!(until.is_none_or(|until| until > self.now), "it would not sleep");
                    prop_assert!(!free || self.queue.rows() == 0 || until.is_some(), "it would not wake");
                    break;
                }
                Decision::Start(key, reason) => self.start(key, reason, &capacity)?,
            }
        }
        let waiting = self.known.iter().enumerate().filter(|(number, known)| {
            known.end.is_none() && !self.in_flight.iter().flatten().any(|started| started == number)
        });
        let rows: usize = waiting.map(|(_, known)| known.rows).sum();
        let outside: usize = self.queue.blocked.iter().map(|(_, _, waiting)| waiting.rows).sum();
        prop_assert_eq!(self.queue.rows() + outside, rows);
        if let Some((_, _, first)) = self.queue.blocked.front() {
            prop_assert!(!self.queue.fits(first.rows), "a waiting caller's request would fit");
        }
        Ok(())
    }

    fn start(&mut self, key: u64, reason: FlushReason, capacity: &Capacity) -> Result<(), TestCaseError> {
        prop_assert!(self.in_flight.len() < self.config.in_flight);
        let before = self.queue.rows();
        let mut taken = TakenBatch::default();
        self.queue.take(&mut taken, key, self.now, capacity, |number| self.known[*number].gone);
        prop_assert!(taken.expired.is_empty(), "they were looked for just before");
        prop_assert!(taken.rows <= capacity.size || taken.batch.len() == 1);
        prop_assert_eq!(taken.rows, taken.batch.iter().map(|one| one.rows).sum::<usize>());
        prop_assert!(!taken.batch.is_empty() || !taken.gone.is_empty());
        prop_assert!(taken.batch.iter().all(|one| self.known[one.request].key == key));
        prop_assert!(taken.batch.iter().all(|one| !self.known[one.request].gone));
        let waited = taken.batch.iter().map(|one| self.now - one.arrived).max().unwrap_or_default();
        match reason {
            FlushReason::Full => prop_assert!(before >= capacity.size),
            FlushReason::Closing => prop_assert!(self.closing),
            FlushReason::Waited => {
                prop_assert!(waited >= self.config.max_wait || self.queue.rows() > 0 || !taken.gone.is_empty());
            }
            FlushReason::Idle => prop_assert!(capacity.idle && self.config.greedy),
        }
        for number in taken.gone {
            self.ends(number, End::Canceled)?;
        }
        let batch: Vec<usize> = taken.batch.into_iter().map(|one| one.request).collect();
        self.started.extend(&batch);
        if !batch.is_empty() {
            self.in_flight.push_back(batch);
        }
        Ok(())
    }
}

fn live(events: Vec<Event>, config: BatchConfig) -> Result<(), TestCaseError> {
    let (queue, known, in_flight) = (RequestQueue::new(&config), Vec::new(), VecDeque::new());
    let mut life = Life { config, queue, known, in_flight, now: Duration::ZERO, closing: false, started: Vec::new() };
    for event in events.into_iter().chain([Event::Close]) {
        life.happen(&event)?;
    }
    // Closing drains the queue, however long it is.
    while !life.in_flight.is_empty() {
        life.happen(&Event::Complete)?;
    }
    prop_assert!(life.known.iter().all(|known| known.end.is_some()), "all have ended: {:?}", life.known);
    prop_assert_eq!((life.queue.rows(), life.queue.blocked_requests()), (0, 0));
    // Requests of one key and priority start in the order of arrival.
    for (place, one) in life.started.iter().enumerate() {
        for other in &life.started[..place] {
            let (own, before) = (&life.known[*one], &life.known[*other]);
            let alike = (own.key, own.priority) == (before.key, before.priority);
            prop_assert!(!alike || other < one, "{other} before {one}");
        }
    }
    Ok(())
}

#[test]
fn each_request_leaves_the_queue_once_in_order_and_within_the_limits() {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let run = ProptestConfig {
        cases: if full { 20_000 } else { 2_000 },
        rng_seed: RngSeed::Fixed(0xba7c_4e00),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let limits = (1..6_usize, 0..9_u32, 1..4_usize, any::<bool>());
    proptest!(run, |(events in prop::collection::vec(event(), 1..60), (size, wait, in_flight, greedy) in limits)| {
        let config = BatchConfig::default().with_max_batch_size(size).with_max_wait(wait * MS).with_in_flight(in_flight).with_greedy(greedy);
        live(events, config)?;
    });
}
