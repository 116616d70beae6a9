//! Devices beside each other, and one under a load that is simulated.

use super::{
    super::config::Overload,
    super::queue::{Decision, Priority, Queue, Taken, Waiting},
    *,
};

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn config() -> BatchConfig {
    BatchConfig { max_batch_size: 100, max_wait: MS, ..BatchConfig::default() }
}

/// Devices that take so long for each row, and were measured.
fn roster(each: &[u32]) -> Roster {
    let mut roster = Roster::new(config(), each.len());
    for (who, each) in each.iter().enumerate() {
        for rows in [1_u32, 50, 100, 20, 80, 10] {
            roster.left(who, rows as usize, 0, Duration::ZERO);
            roster.members[who].landed = Duration::ZERO;
            roster.landed(who, 0, *each * rows * US);
        }
        roster.members[who].landed = Duration::ZERO;
        roster.sleeps(who, None);
    }
    roster
}

#[test]
fn a_device_that_is_alone_takes_whatever_there_is() {
    let mut roster = Roster::new(config(), 1);
    let taker = Taker { free: true, idle: true, waits: None, size: 100, left: 0 };
    assert_eq!(roster.taker(0, MS, 7), taker);
    roster.left(0, 7, 0, MS);
    assert_eq!(roster.taker(0, 999 * MS, 7), Taker { idle: false, ..taker });
    roster.left(0, 7, 0, MS);
    assert_eq!(roster.taker(0, 999 * MS, 7), Taker { idle: false, free: false, ..taker });
}

#[test]
fn the_fastest_takes_what_is_there_and_others_what_is_left() {
    let roster = roster(&[40, 10]);
    let [slow, fast] = [0, 1].map(|who| roster.taker(who, MS, 60));
    assert_eq!((fast.left, fast.size), (0, 100));
    // In the millisecond in which the fast one does a hundred.
    assert_eq!((slow.left, slow.size), (100, 25));
}

#[test]
fn who_is_busy_is_not_waited_for_longer_than_others_would_take() {
    let mut roster = roster(&[40, 10]);
    assert_eq!(roster.taker(0, MS, 20).left, 100);
    // 2 ms under way, and 20 rows: the other is there sooner.
    roster.left(1, 100, 0, MS);
    roster.left(1, 100, 0, MS);
    assert_eq!(roster.taker(0, MS, 20).left, 0);
}

#[test]
fn who_does_no_row_in_time_gets_a_probe_now_and_then() {
    let mut roster = roster(&[5_000, 10]);
    let taker = roster.taker(0, 2 * PROBE, 500);
    assert_eq!((taker.free, taker.size), (true, 1));
    roster.left(0, 1, 0, 2 * PROBE);
    roster.landed(0, 0, 2 * PROBE + 5 * MS);
    let after = |time: Duration| roster.taker(0, 2 * PROBE + time, 500);
    assert!(!after(6 * MS).free && !after(PROBE - MS).free && after(PROBE).free);
    assert_eq!(roster.taker(1, 2 * PROBE, 500).left, 0, "nothing is left to one that is too slow");
}

#[test]
fn who_is_fast_again_is_found_out() {
    let mut roster = roster(&[5_000, 10]);
    let mut now = Duration::ZERO;
    for _ in 0..4 {
        now += 2 * PROBE;
        assert!(roster.taker(0, now, 500).free);
        roster.left(0, 1, 0, now);
        roster.landed(0, 0, now + 10 * US);
    }
    roster.sleeps(0, None);
    assert!(roster.taker(0, now + MS, 500).size > 50, "{roster:?}");
}

#[test]
fn who_does_not_land_or_is_lost_is_not_counted_on() {
    let mut roster = roster(&[10, 10]);
    assert_eq!(roster.taker(1, MS, 50).left, 100);
    roster.left(0, 10, 0, MS);
    assert!(roster.taker(0, 2 * MS, 50).free);
    // Eight times what it should take, and max_wait.
    let overdue = 2 * MS + 801 * US;
    assert!(!roster.taker(0, overdue, 50).free);
    assert_eq!(roster.taker(1, overdue, 50), Taker { free: true, idle: true, waits: None, size: 100, left: 0 });
    roster.landed(0, 0, overdue);
    assert!(roster.taker(0, overdue, 50).free);
    roster.lost(0);
    assert_eq!((roster.taker(0, overdue, 50).free, roster.taker(1, overdue, 50).left), (false, 0));
    roster.returned(0);
    // Nothing is known of it any more.
    assert_eq!((roster.taker(0, overdue, 50).size, roster.is_empty()), (12, false));
}

#[test]
fn who_is_long_at_work_is_not_waited_for() {
    let mut roster = roster(&[10, 10]);
    roster.wakes(0, MS);
    assert_eq!(roster.taker(1, 2 * MS, 50).left, 100);
    assert_eq!(roster.taker(1, 2 * MS + US, 50).left, 0);
}

/// What came of a load on one device.
#[derive(Debug)]
struct Outcome {
    p99: Duration,
    answered: usize,
    rejected: usize,
    size: usize,
}

/// A device that takes `fixed` for a batch and `each` for a row, a tenth more or less, and now and then half as much again.
struct Simulated {
    fixed: f64,
    each: f64,
    seed: u64,
}

impl Simulated {
    /// Evenly between 0 and 1.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn service(&mut self, rows: usize) -> Duration {
        let swing = 0.9 + 0.2 * self.chance() + if self.chance() < 0.005 { 0.5 } else { 0.0 };
        Duration::from_secs_f64((self.fixed + self.each * rows as f64) * swing)
    }

    /// Requests of one row that come at random, so many a second on average, for a second, after half a second for learning. The rate may change with
    /// the time.
    fn bear(&mut self, rate: impl Fn(Duration) -> f64, config: BatchConfig) -> Outcome {
        let (mut queue, mut roster) = (Queue::new(&config), Roster::new(config, 1));
        let (mut now, end, warm) = (Duration::ZERO, Duration::from_millis(1500), Duration::from_millis(500));
        let mut arrival = now;
        let mut landings: VecDeque<(Duration, Vec<Duration>)> = VecDeque::new();
        let (mut latencies, mut rejected) = (Vec::new(), 0);
        while now < end {
            if now >= arrival {
                if config.overload == Overload::Wait || queue.has_room(1) {
                    let waiting = Waiting { request: (), rows: 1, arrived: now, deadline: None };
                    queue.push(0, Priority::Normal, waiting);
                } else if now > warm {
                    rejected += 1;
                }
                arrival += Duration::from_secs_f64(-(1.0 - self.chance()).ln() / rate(now));
            }
            while let Some((_, arrived)) = landings.pop_front_if(|(lands, _)| *lands <= now) {
                roster.landed(0, queue.rows(), now);
                let wanted = arrived.iter().filter(|arrived| **arrived > warm);
                latencies.extend(wanted.map(|arrived| now - *arrived));
                if let Some((capacity, max_wait)) = roster.limits() {
                    queue.limit(capacity, max_wait);
                }
            }
            let taker = roster.taker(0, now, queue.rows());
            let next = match queue.decide(now, &taker, false) {
                Decision::Fly(key, _) => {
                    let (waiting, mut taken) = (queue.rows(), Taken::default());
                    queue.take(&mut taken, key, now, &taker, |()| false);
                    roster.left(0, taken.rows, waiting, now);
                    let begins = landings.back().map_or(now, |(lands, _)| *lands);
                    let lands = begins + self.service(taken.rows);
                    landings.push_back((lands, taken.batch.iter().map(|waiting| waiting.arrived).collect()));
                    continue;
                }
                Decision::Until(until) => until,
            };
            let lands = landings.front().map(|(lands, _)| *lands);
            now = next.into_iter().chain(lands).chain([arrival]).min().unwrap_or(end).max(now);
        }
        latencies.sort_unstable();
        let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
        Outcome { p99, answered: latencies.len(), rejected, size: roster.batch_size() }
    }
}

#[test]
fn a_target_is_met_from_idle_to_twice_what_can_be_done() {
    // Targets, and the rows a second that can be done in batches which keep them: three such flights fit into the target.
    for (fixed, each, p99) in [(200e-6, 1e-6, 3 * MS), (1e-3, 20e-6, 20 * MS), (50e-6, 2e-6, MS)] {
        let rows = (p99.as_secs_f64() / 3.0 - fixed) / each;
        let capacity = rows / (p99.as_secs_f64() / 3.0);
        for load in [0.001, 0.05, 0.3, 0.6, 0.8, 1.0, 1.5, 2.0] {
            for greedy in [true, false] {
                let config = BatchConfig {
                    max_batch_size: 100_000,
                    tuning: Tuning::Target { p99 },
                    overload: Overload::Reject,
                    greedy,
                    ..BatchConfig::default()
                };
                let mut device = Simulated { fixed, each, seed: 0x5eed_0000_0001 };
                let outcome = device.bear(|_| load * capacity, config);
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
    let (tuning, overload) = (Tuning::Target { p99 }, Overload::Reject);
    let config = BatchConfig { max_batch_size: 100_000, tuning, overload, ..BatchConfig::default() };
    // From idle to twice what can be done and back, eight times.
    let rate = |now: Duration| capacity * (1.001 - (now.as_secs_f64() * 16.0 * std::f64::consts::PI).cos());
    let outcome = Simulated { fixed: 200e-6, each: 1e-6, seed: 99 }.bear(rate, config);
    assert!(outcome.p99 <= p99 && outcome.rejected > 0, "{outcome:?}");
    assert!(outcome.answered as f64 > 0.6 * capacity, "{outcome:?}");
}

#[test]
fn a_target_out_of_reach_does_not_end_in_batches_of_one_row() {
    let config = BatchConfig {
        tuning: Tuning::Target { p99: 100 * US },
        overload: Overload::Reject,
        max_batch_size: 100_000,
        ..BatchConfig::default()
    };
    let outcome = Simulated { fixed: 1e-3, each: 10e-6, seed: 7 }.bear(|_| 200_000.0, config);
    assert!((50..200).contains(&outcome.size), "a row's share is about half: {outcome:?}");
}

#[test]
fn nobody_is_sent_away_before_anything_is_known() {
    let tuning = Tuning::Target { p99: 10 * MS };
    let mut roster = Roster::new(BatchConfig { tuning, ..config() }, 1);
    assert_eq!((roster.batch_size(), roster.limits()), (1, Some((400, MS))));
    // One row took 1 ms: two are tried next, and a full batch may wait, for nothing says yet that it takes longer.
    roster.left(0, 1, 0, Duration::ZERO);
    roster.landed(0, 0, MS);
    assert_eq!((roster.batch_size(), roster.limits()), (2, Some((100, MS))));
}

#[test]
fn batches_are_never_larger_than_they_may_be() {
    let tuning = Tuning::Target { p99: 100 * MS };
    let config = BatchConfig { tuning, max_batch_size: 64, overload: Overload::Reject, ..BatchConfig::default() };
    let outcome = Simulated { fixed: 1e-4, each: 1e-6, seed: 7 }.bear(|_| 1e6, config);
    assert_eq!(outcome.size, 64, "{outcome:?}");
}
