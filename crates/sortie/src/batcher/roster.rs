//! The devices behind a batcher: what each has under way, what it was measured at, and how much it may take.
//!
//! Pure, as the queue is. Devices take batches themselves, each when it has room, so that faster ones take more; the roster keeps slower ones from taking
//! what would be done sooner elsewhere. A batch of a slower device has as many rows as it does in the time that the fastest takes for a full one, or in
//! `max_wait` if that is longer. A device that does not even do one row in that time, or does not land, gets nothing but a probe now and then.
//!
//! Invariant: a device that is alone is never kept from anything.

use std::{collections::VecDeque, time::Duration};

use super::{
    config::{BatchConfig, Tuning},
    fit::Fit,
    linger::{self, Linger},
    queue::Taker,
};

/// How often a device that is too slow is tried again, and with which part of a batch.
const PROBE: Duration = Duration::from_secs(1);
const PROBED: usize = 64;
/// The part of a batch that a device gets of which nothing is known yet.
const UNKNOWN: usize = 8;
/// A flight that takes so many times what was thought, and `max_wait`, is overdue.
const OVERDUE: u32 = 8;
/// Others wait at least so long for a device that is at work on something else before they take what it would have.
const AWAY: Duration = Duration::from_millis(1);
/// The part of a target that is planned for: what is measured swings.
const PLANNED: f64 = 0.95;

#[derive(Debug)]
pub(super) struct Roster {
    config: BatchConfig,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    fit: Fit,
    /// Rows and departure of what is under way, in order.
    flights: VecDeque<(usize, Duration)>,
    /// When the last one landed.
    landed: Duration,
    /// Rows of a batch, by the tuning, and how many may wait for it.
    size: usize,
    room: usize,
    /// It answers.
    up: bool,
    whereabouts: Whereabouts,
    /// Too slow, it is tried again from then on.
    probe: Duration,
    linger: Linger,
    share: Share,
}

/// What a device of a batcher has done so far, and what it was measured at. In the order of the [`Fleet`](crate::Fleet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Batches that it has taken.
    pub batches: u64,
    /// Rows that it has taken.
    pub rows: u64,
    /// Whether it is there: not lost, and not being opened again.
    pub up: bool,
    /// Rows of a full batch of its own at the moment; 0 when it is too slow to get any but a probe now and then.
    pub batch_size: usize,
    /// What a batch takes at all, and what each row takes; `None` before there was one.
    pub measured: Option<[Duration; 2]>,
}

/// What the thread of a device is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Looking for work, or at work since then.
    Awake(Duration),
    /// Asleep, until then if nothing happens.
    Asleep(Option<Duration>),
}

impl Roster {
    /// So many devices.
    pub(super) fn new(config: BatchConfig, devices: usize) -> Self {
        let member = |_| Member {
            fit: Fit::default(),
            flights: VecDeque::new(),
            landed: Duration::ZERO,
            size: match config.tuning {
                Tuning::Fixed => config.max_batch_size.max(1),
                Tuning::Target { .. } => 1,
            },
            // Nobody is sent away before anything is known.
            room: config.capacity(),
            up: true,
            whereabouts: Whereabouts::Awake(Duration::ZERO),
            probe: Duration::ZERO,
            linger: Linger::default(),
            share: Share::default(),
        };
        Self { config, members: (0..devices).map(member).collect() }
    }

    /// What a device could take of so many rows that wait.
    pub(super) fn taker(&self, who: usize, now: Duration, waiting: usize) -> Taker {
        let member = &self.members[who];
        let idle = member.flights.is_empty();
        let waits = member.linger.waits(now, waiting);
        if self.members.len() == 1 {
            return Taker { free: self.has_place(member), idle, waits, size: member.size, left: 0 };
        }
        let size = match self.share(who) {
            0 if idle && now >= member.probe => (member.size / PROBED).max(1),
            size => size,
        };
        let free = self.is_free(who, now) && size > 0;
        let own = self.ready(who, now, waiting);
        let sooner = |other: &usize| {
            let theirs = self.ready(*other, now, waiting);
            *other != who && self.is_free(*other, now) && (theirs < own || theirs == own && *other < who)
        };
        let left = (0..self.members.len()).filter(sooner).map(|other| self.share(other)).sum();
        Taker { free, idle, waits, size, left }
    }

    fn has_place(&self, member: &Member) -> bool {
        member.up && member.flights.len() < self.config.in_flight.max(1)
    }

    /// Rows of a batch of this device, by what it does in the time of the fastest.
    fn share(&self, who: usize) -> usize {
        let member = &self.members[who];
        let full = |member: &Member| member.fit.time(member.size).filter(|_| member.up);
        let fastest = self.members.iter().filter_map(full).min().unwrap_or_default();
        // What is equal may come out a little less.
        let time = fastest.max(self.config.max_wait) + fastest / 100;
        match member.fit.rows_within(time) {
            Some(rows) => rows.min(member.size),
            None => (member.size / UNKNOWN).max(1),
        }
    }

    /// Whether a device is there to take something.
    fn is_free(&self, who: usize, now: Duration) -> bool {
        let member = &self.members[who];
        let away = match member.whereabouts {
            Whereabouts::Awake(since) => now.saturating_sub(since) > self.patience(),
            Whereabouts::Asleep(_) => false,
        };
        self.has_place(member) && !away && !self.is_overdue(member, now)
    }

    /// How long others wait for a device that is about to take something.
    fn patience(&self) -> Duration {
        self.config.max_wait.max(AWAY)
    }

    fn is_overdue(&self, member: &Member, now: Duration) -> bool {
        let Some((rows, left)) = member.flights.front() else { return false };
        let thought = member.fit.time(*rows).unwrap_or(PROBE);
        now.saturating_sub((*left).max(member.landed)) > thought * OVERDUE + self.config.max_wait
    }

    /// How long it would take this device to have done as much as it may of what waits.
    fn ready(&self, who: usize, now: Duration, waiting: usize) -> Duration {
        let member = &self.members[who];
        let time = |rows: usize| member.fit.time(rows).unwrap_or_default();
        let before: Duration = member.flights.iter().map(|(rows, _)| time(*rows)).sum();
        let since = member.flights.front().map(|(_, left)| now.saturating_sub((*left).max(member.landed)));
        before.saturating_sub(since.unwrap_or_default()) + time(waiting.min(self.share(who)))
    }

    /// Whether others may have been left what nobody takes, and until when that is to be looked at again.
    pub(super) fn look_again(&self, taker: &Taker, now: Duration) -> Option<Duration> {
        (taker.left > 0 || taker.size == 0).then(|| now + self.patience())
    }

    /// A batch has left, when so many rows waited.
    pub(super) fn left(&mut self, who: usize, rows: usize, waiting: usize, now: Duration) {
        if self.members.len() > 1 && self.share(who) == 0 {
            self.members[who].probe = now + PROBE;
        }
        let member = &mut self.members[who];
        member.flights.push_back((rows, now));
        member.linger.end(waiting);
        member.share.batches += 1;
        member.share.rows += rows as u64;
    }

    /// The oldest batch under way is over; so many rows wait.
    pub(super) fn landed(&mut self, who: usize, waiting: usize, now: Duration) {
        let config = self.config;
        let max_wait = self.limits().map_or(config.max_wait, |(_, max_wait)| max_wait);
        let member = &mut self.members[who];
        let Some((rows, left)) = member.flights.pop_front() else { return };
        // A device does one after the other.
        let service = now.saturating_sub(left.max(member.landed));
        member.fit.add(rows, service);
        member.landed = now;
        if config.greedy && member.flights.is_empty() {
            member.linger.begin(now, service, [rows, waiting, member.size], max_wait);
        }
        if let Tuning::Target { p99 } = config.tuning {
            let waits = if config.greedy { wait_for(config, p99) / linger::OF_WAIT } else { wait_for(config, p99) };
            // Whoever comes when all are under way sees them through, and then flies.
            let flights = config.in_flight.max(1) + 1;
            let target = p99.mul_f64(PLANNED).saturating_sub(waits);
            let rows = member.fit.rows_for(target, flights).min(config.max_batch_size).max(1);
            (member.size, member.room) = (rows.min(member.fit.believable()), rows);
        }
    }

    /// The youngest batch never flew.
    pub(super) fn stayed(&mut self, who: usize) {
        self.members[who].flights.pop_back();
    }

    /// The oldest batch under way has failed, which says nothing about how long batches take.
    pub(super) fn failed(&mut self, who: usize, now: Duration) {
        let member = &mut self.members[who];
        member.flights.pop_front();
        member.landed = now;
    }

    /// A device was lost.
    pub(super) fn lost(&mut self, who: usize) {
        let member = &mut self.members[who];
        member.up = false;
        member.flights.clear();
        member.fit = Fit::default();
    }

    /// It has been opened again.
    pub(super) fn returned(&mut self, who: usize) {
        self.members[who].up = true;
    }

    /// Whether no device answers any more.
    pub(super) fn is_empty(&self) -> bool {
        self.members.iter().all(|member| !member.up)
    }

    /// Flights of a device that are under way.
    pub(super) fn flying(&self, who: usize) -> usize {
        self.members[who].flights.len()
    }

    pub(super) fn sleeps(&mut self, who: usize, until: Option<Duration>) {
        self.members[who].whereabouts = Whereabouts::Asleep(until);
    }

    pub(super) fn wakes(&mut self, who: usize, now: Duration) {
        self.members[who].whereabouts = Whereabouts::Awake(now);
    }

    /// Who sleeps, and until when.
    pub(super) fn sleepers(&self) -> impl Iterator<Item = (usize, Option<Duration>)> + '_ {
        self.members.iter().enumerate().filter_map(|(who, member)| match member.whereabouts {
            Whereabouts::Asleep(until) => Some((who, until)),
            Whereabouts::Awake(_) => None,
        })
    }

    /// What each device has done.
    pub(super) fn shares(&self) -> Vec<Share> {
        let share = |(who, member): (usize, &Member)| Share {
            up: member.up,
            batch_size: if self.members.len() == 1 { member.size } else { self.share(who) },
            measured: member.fit.parts(),
            ..member.share
        };
        self.members.iter().enumerate().map(share).collect()
    }

    /// Rows of the largest batches at the moment.
    pub(super) fn batch_size(&self) -> usize {
        self.members.iter().map(|member| member.size).max().unwrap_or_default()
    }

    /// By the tuning: most rows that may wait, and how long a request does.
    pub(super) fn limits(&self) -> Option<(usize, Duration)> {
        let Tuning::Target { p99 } = self.config.tuning else { return None };
        let up = self.members.iter().filter(|member| member.up);
        let rows = up.fold(0_usize, |rows, member| rows.saturating_add(member.room));
        Some((rows.clamp(1, self.config.capacity()), wait_for(self.config, p99)))
    }
}

/// How long a request waits for others where a target is to be met.
fn wait_for(config: BatchConfig, p99: Duration) -> Duration {
    config.max_wait.min(p99 / 4)
}

#[cfg(test)]
mod tests {
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
}
