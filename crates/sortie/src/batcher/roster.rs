//! The devices behind a batcher: what each has under way, what it was measured at, and how much it may take.
//!
//! Pure, as the queue is. Devices take batches themselves, each when it has room, so that faster ones take more; the roster keeps slower ones from taking
//! what would be done sooner elsewhere. A batch of a slower device has as many rows as it does in the time that the fastest takes for a full one, or in
//! `max_wait` if that is longer. A device that does not even do one row in that time, or does not land, gets nothing but a probe now and then.
//!
//! Invariant: a device that is alone is never kept from anything.

use std::{collections::VecDeque, time::Duration};

use super::{
    config::{BatchConfig, Overload, Tuning},
    fit::{Fit, Plan},
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
    /// Most batches under way at once, by the tuning.
    in_flight: usize,
    /// It answers.
    up: bool,
    whereabouts: Whereabouts,
    /// Too slow, it is tried again from then on.
    probe: Duration,
    linger: Linger,
    share: Share,
}

/// What a device of a batcher has done so far, and what it was measured at. In the order of the [`Fleet`](crate::Fleet).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, Rows};
///
/// # let halves = Rows::<f32, f32>::new([1, 1], "
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
/// #     }
/// # ");
/// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
/// batcher.call_blocking(vec![1.0, 2.0])?;
/// let [share] = batcher.shares()[..] else { panic!("one device") };
/// assert!(share.up && share.rows == 2);
/// # Ok::<(), sortie::Error>(())
/// ```
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
            in_flight: config.in_flight.max(1),
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
        let since = self.in_time_since(member, now, waiting);
        if self.members.len() == 1 {
            return Taker { free: Self::has_place(member), idle, waits, size: member.size, left: 0, since };
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
        Taker { free, idle, waits, size, left, since }
    }

    /// Whether a request of `rows` rows that arrives now, behind `waiting` rows, will be answered in time. When nothing waits and nothing is under way it is always let in: how long
    /// it takes has to be learned from something. Only where there is a target, and others are rejected.
    pub(super) fn is_in_time(&self, now: Duration, waiting: usize, rows: usize) -> bool {
        let Some(p99) = self.kept() else { return true };
        let up = || self.members.iter().filter(|member| member.up);
        let room = up().fold(0_usize, |room, member| room.saturating_add(self.room_in_time(member, p99, now)));
        waiting.saturating_add(rows) <= room || waiting == 0 && up().any(|member| member.flights.is_empty())
    }

    /// The target, where requests that would miss it are rejected.
    fn kept(&self) -> Option<Duration> {
        match (self.config.tuning, self.config.overload) {
            (Tuning::Target { p99 }, Overload::Reject) => Some(p99),
            _ => None,
        }
    }

    /// Rows that a device can answer in time behind what it has under way, in batches of the size that they have now.
    fn room_in_time(&self, member: &Member, p99: Duration, now: Duration) -> usize {
        let Some(full) = member.fit.time(member.size).filter(|_| member.fit.is_known()) else { return 0 };
        let waits = if self.config.greedy { Duration::ZERO } else { wait_for(self.config, p99) };
        let planned = p99.mul_f64(PLANNED).saturating_sub(member.fit.margin(member.size, p99) + waits);
        let left = planned.saturating_sub(self.ahead(member, now));
        let batches = left.div_duration_f64(full.max(Duration::from_nanos(1))) as u32;
        let rest = member.fit.rows_within(left.saturating_sub(full.saturating_mul(batches))).unwrap_or_default();
        member.size.saturating_mul(batches as usize).saturating_add(rest.min(member.size))
    }

    /// How long a device still takes for what it has under way. One that takes longer than thought is thought to take as much longer again.
    fn ahead(&self, member: &Member, now: Duration) -> Duration {
        let time = |(rows, _): &(usize, Duration)| member.fit.time(*rows).unwrap_or_default();
        let Some(first) = member.flights.front() else { return Duration::ZERO };
        let since = now.saturating_sub(first.1.max(member.landed));
        member.flights.iter().skip(1).map(time).sum::<Duration>() + time(first).abs_diff(since)
    }

    /// Requests that arrived before are too late for a batch that leaves now, where those are rejected. A device that has nothing under way takes whatever has waited for less than half of the target.
    fn in_time_since(&self, member: &Member, now: Duration, waiting: usize) -> Option<Duration> {
        let p99 = self.kept()?;
        let own = member.fit.time(waiting.min(member.size)).unwrap_or_default();
        let least = if member.flights.is_empty() { p99 / 2 } else { Duration::ZERO };
        let may_have_waited = p99.saturating_sub(self.ahead(member, now) + own).max(least);
        Some(now.saturating_sub(may_have_waited))
    }

    /// Whether a device may have one more batch under way.
    pub(super) fn can_start(&self, who: usize) -> bool {
        Self::has_place(&self.members[who])
    }

    fn has_place(member: &Member) -> bool {
        member.up && member.flights.len() < member.in_flight
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
        Self::has_place(member) && !away && !self.is_overdue(member, now)
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
        self.started(who, rows, now);
        let member = &mut self.members[who];
        member.linger.end(waiting);
        member.share.batches += 1;
        member.share.rows += rows as u64;
    }

    /// A batch, or a part of one that is run again, is under way from now on.
    pub(super) fn started(&mut self, who: usize, rows: usize, now: Duration) {
        self.members[who].flights.push_back((rows, now));
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
            let target = p99.mul_f64(PLANNED).saturating_sub(waits);
            let Plan { rows, in_flight } = member.fit.plan(target, config.in_flight.max(1));
            let rows = match rows {
                // Those that come are late, and with one row the least.
                0 if config.overload == Overload::Reject => 1,
                0 => member.fit.balanced(),
                rows => rows,
            };
            let rows = rows.min(config.max_batch_size).max(1);
            (member.size, member.room, member.in_flight) = (rows.min(member.fit.believable()), rows, in_flight);
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
mod tests;
