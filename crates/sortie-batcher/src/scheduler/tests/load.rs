//! One device under a simulated load, on a machine that is shared.

use super::*;
use crate::queue::{Decision, Priority, QueuedRequest, RequestQueue, TakenBatch};

/// The result of a load on one device.
#[derive(Debug)]
struct Outcome {
    p99: Duration,
    answered: usize,
    rejected: usize,
    size: usize,
}

/// A device that takes `fixed` per batch and `each` per row, ±10 %, and now and then half as much again; in seconds.
struct Simulated {
    fixed: f64,
    each: f64,
    machine: Machine,
    seed: u64,
}

/// Disturbances of the machine, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    /// Additional time of the first batch: kernels are compiled.
    first: f64,
    /// Average time until the worker wakes.
    wakes: f64,
    /// The fraction of batches that stall, and for how long.
    stalls: f64,
    stalled: f64,
    /// Slowdown while others use the machine, which they do for 300 ms of each second.
    shared: f64,
}

const QUIET: Machine = Machine { first: 0.0, wakes: 0.0, stalls: 0.0, stalled: 0.0, shared: 1.0 };
const LOADED: Machine = Machine { first: 0.15, wakes: 0.3e-3, stalls: 0.004, stalled: 8e-3, shared: 3.0 };

impl Simulated {
    /// Uniform between 0 and 1.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn service(&mut self, batch: usize, rows: usize, now: Duration) -> Duration {
        let Machine { first, stalls, stalled, shared, .. } = self.machine;
        let swing = 0.9 + 0.2 * self.chance() + if self.chance() < 0.005 { 0.5 } else { 0.0 };
        let slower = if now.as_secs_f64().fract() < 0.3 { shared } else { 1.0 };
        let stall = if self.chance() < stalls { stalled } else { 0.0 } + if batch == 0 { first } else { 0.0 };
        Duration::from_secs_f64((self.fixed + self.each * rows as f64) * swing * slower + stall)
    }

    /// Time until the worker wakes.
    fn wakes(&mut self) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.chance()).ln() * self.machine.wakes)
    }

    /// Random requests of one row, `rate` per second on average, until `end`. The rate may change over time. Those
    /// before `warm` are not counted.
    fn bear(&mut self, rate: impl Fn(Duration) -> f64, [warm, end]: [Duration; 2], config: BatchConfig) -> Outcome {
        let (mut queue, mut scheduler) = (RequestQueue::new(&config), Scheduler::new(config, 1));
        let (mut now, mut arrival, mut batches) = (Duration::ZERO, Duration::ZERO, 0);
        // When the worker checks next: it sleeps until then.
        let mut looks = Duration::ZERO;
        let mut landings: VecDeque<(Duration, Vec<Duration>)> = VecDeque::new();
        let mut outcome = Outcome { p99: Duration::ZERO, answered: 0, rejected: 0, size: 0 };
        let mut latencies = Vec::new();
        let counts = |arrived: &Duration| *arrived >= warm;
        while now < end {
            now = arrival.min(looks);
            if now == arrival {
                let has_room = queue.has_room(1) && scheduler.is_in_time(now, queue.rows(), 1);
                if config.overload == Overload::Wait || has_room {
                    let waiting = QueuedRequest { request: (), rows: 1, arrived: now, deadline: None };
                    queue.push(0, Priority::Normal, waiting);
                } else {
                    outcome.rejected += usize::from(counts(&now));
                }
                arrival += Duration::from_secs_f64(-(1.0 - self.chance()).ln() / rate(now));
                let capacity = scheduler.capacity(0, now, queue.rows());
                let woken = match queue.decide(now, &capacity, false) {
                    Decision::Start(..) => Some(now),
                    Decision::Until(until) => until,
                };
                looks = woken.map_or(looks, |woken| looks.min(woken + self.wakes()));
                continue;
            }
            while let Some((_, arrived)) = landings.pop_front_if(|(lands, _)| *lands <= now) {
                scheduler.finished(0, queue.rows(), now);
                latencies.extend(arrived.iter().filter(|arrived| counts(arrived)).map(|arrived| now - *arrived));
                if let Some((capacity, max_wait)) = scheduler.limits() {
                    queue.set_limits(capacity, max_wait);
                }
            }
            let capacity = scheduler.capacity(0, now, queue.rows());
            let until = match queue.decide(now, &capacity, false) {
                Decision::Start(key, _) => {
                    let (waiting, mut taken) = (queue.rows(), TakenBatch::default());
                    queue.take(&mut taken, key, now, &capacity, |()| false);
                    outcome.rejected += taken.shed.len();
                    if !taken.batch.is_empty() {
                        scheduler.dispatched(0, taken.rows, waiting, now);
                        let begins = landings.back().map_or(now, |(lands, _)| *lands);
                        let lands = begins + self.service(batches, taken.rows, begins);
                        batches += 1;
                        landings.push_back((lands, taken.batch.iter().map(|waiting| waiting.arrived).collect()));
                    }
                    continue;
                }
                Decision::Until(until) => until,
            };
            let lands = landings.front().map(|(lands, _)| *lands);
            let next = until.into_iter().chain(lands).min();
            looks = next.map_or(Duration::MAX, |next| next.max(now) + self.wakes());
        }
        latencies.sort_unstable();
        outcome.p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
        Outcome { answered: latencies.len(), size: scheduler.batch_size(), ..outcome }
    }
}

/// Half a second for learning, and one that counts.
const LEARNED: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

#[test]
fn a_target_is_met_from_idle_to_twice_what_can_be_done() {
    // Targets, and the rows per second that batches within the target can do: three batches fit into the target.
    for (fixed, each, p99) in [(200e-6, 1e-6, 3 * MS), (1e-3, 20e-6, 20 * MS), (50e-6, 2e-6, MS)] {
        let rows = (p99.as_secs_f64() / 3.0 - fixed) / each;
        let capacity = rows / (p99.as_secs_f64() / 3.0);
        for load in [0.001, 0.05, 0.3, 0.6, 0.8, 1.0, 1.5, 2.0] {
            for greedy in [true, false] {
                let config = BatchConfig::default()
                    .with_max_batch_size(100_000)
                    .with_sizing(BatchSizing::Target { p99 })
                    .with_overload(Overload::Reject)
                    .with_greedy(greedy);
                let mut device = Simulated { fixed, each, machine: QUIET, seed: 0x5eed_0000_0001 };
                let outcome = device.bear(|_| load * capacity, LEARNED, config);
                let what = format!("{load} × {capacity:.0}/s, greedy {greedy}, target {p99:?}: {outcome:?}");
                assert!(outcome.p99 <= p99, "{what}");
                let all = outcome.answered + outcome.rejected;
                if load <= 0.6 {
                    assert!(outcome.rejected * 1000 <= all, "little is shed: {what}");
                }
                if load > 1.2 {
                    assert!(outcome.rejected * 10 > all, "what cannot be done is shed: {what}");
                    let done = outcome.answered as f64;
                    assert!(done > 0.7 * capacity, "most of what can be done is done, {done:.0}/s: {what}");
                }
            }
        }
    }
}

#[test]
fn a_target_is_met_while_the_load_rises_and_falls() {
    let p99 = 3 * MS;
    let capacity = 800_000.0;
    let (sizing, overload) = (BatchSizing::Target { p99 }, Overload::Reject);
    let config = BatchConfig::default().with_max_batch_size(100_000).with_sizing(sizing).with_overload(overload);
    // From idle to twice the capacity and back, eight times.
    let rate = |now: Duration| capacity * (1.001 - (now.as_secs_f64() * 16.0 * std::f64::consts::PI).cos());
    let outcome = Simulated { fixed: 200e-6, each: 1e-6, machine: QUIET, seed: 99 }.bear(rate, LEARNED, config);
    assert!(outcome.p99 <= p99 && outcome.rejected > 0, "{outcome:?}");
    assert!(outcome.answered as f64 > 0.6 * capacity, "{outcome:?}");
}

#[test]
fn a_target_out_of_reach_does_not_end_in_batches_of_one_row() {
    let config = BatchConfig::default()
        .with_sizing(BatchSizing::Target { p99: 100 * US })
        .with_overload(Overload::Wait)
        .with_max_batch_size(100_000);
    let outcome = Simulated { fixed: 1e-3, each: 10e-6, machine: QUIET, seed: 7 }.bear(|_| 200_000.0, LEARNED, config);
    assert!((50..200).contains(&outcome.size), "a row's share is about half: {outcome:?}");
}

#[test]
fn batches_are_never_larger_than_they_may_be() {
    let sizing = BatchSizing::Target { p99: 100 * MS };
    let config = BatchConfig::default().with_sizing(sizing).with_max_batch_size(64).with_overload(Overload::Reject);
    let outcome = Simulated { fixed: 1e-4, each: 1e-6, machine: QUIET, seed: 7 }.bear(|_| 1e6, LEARNED, config);
    assert_eq!(outcome.size, 64, "{outcome:?}");
}

#[test]
fn a_target_is_kept_from_the_first_request_on_while_the_machine_does_other_things_too() {
    // As on software drivers: 300 µs per batch, 40 µs per row.
    let (fixed, each) = (300e-6, 40e-6);
    for p99 in [5 * MS, 20 * MS, 50 * MS] {
        for load in [0.5, 1.0, 2.0] {
            for seed in 1..=5_u64 {
                let (sizing, overload) = (BatchSizing::Target { p99 }, Overload::Reject);
                let config = BatchConfig::default().with_sizing(sizing).with_overload(overload);
                let machine = LOADED;
                let mut device = Simulated { fixed, each, machine, seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
                let outcome = device.bear(|_| load / each, [Duration::ZERO, 5000 * MS], config);
                let what = format!("{load}, target {p99:?}, seed {seed}: {outcome:?}");
                assert!(outcome.p99 <= p99 * 3 / 2, "{what}");
                // Relative to a machine that is not shared.
                let offered = (outcome.answered + outcome.rejected) as f64;
                assert!(outcome.answered as f64 > 0.1 * offered, "it still answers: {what}");
            }
        }
    }
}
