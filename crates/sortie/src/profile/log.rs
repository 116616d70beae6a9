//! What is written down of a batch on its way, for its profile. Nothing is worked out before somebody asks for that.

use std::{
    fmt,
    sync::OnceLock,
    thread::{self, ThreadId},
};

use parking_lot::Mutex;

use super::{PlanOutline, Profile, TimestampTier};
use crate::clock::Instant;

/// The log of one batch, or of one run of a replay.
pub(crate) struct Log {
    zero: Instant,
    entries: Mutex<Entries>,
    /// Made by the first who asks.
    profile: OnceLock<Profile>,
}

/// All that has been written down.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) device: String,
    pub(super) tier: TimestampTier,
    /// Whether the device may run several ops at once.
    pub(super) side_by_side: bool,
    pub(super) stages: Vec<Stage>,
    pub(super) outline: Option<Box<dyn FnOnce() -> PlanOutline + Send>>,
    pub(super) ran: Vec<ExecutedStep>,
    pub(super) stretches: Vec<Interval>,
    pub(super) stamps: Option<TimestampRange>,
    /// When each submission landed, by its number.
    pub(super) landed: Vec<(u32, u64)>,
    /// Why the run may not have been as it is without a profile.
    pub(super) caveats: Vec<&'static str>,
}

/// What the host does for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageKind {
    Record,
    Plan,
    Encode,
    Submit,
}

/// Something that the host did, in nanoseconds since the log began.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) kind: StageKind,
    /// Of which submission it is a part, where it is of one.
    pub(crate) part: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) thread: ThreadId,
    pub(crate) thread_name: Option<String>,
}

/// Something that the device did, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutedStep {
    /// Its number in the plan's list of steps.
    pub(crate) step: u32,
    pub(crate) part: u32,
    /// What encoding it took, in nanoseconds.
    pub(crate) encode: u32,
}

/// So many of what ran, one after the other, between two times: numbers of stamps, or nanoseconds since the log began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) part: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// Where the device's stamps are among what the batch reads back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampRange {
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// Nanoseconds of a tick.
    pub(crate) period: f64,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now(), entries: Mutex::default(), profile: OnceLock::new() }
    }

    /// Does something that the host does for a batch, and writes down how long it took where there is a log.
    pub(crate) fn time<R>(log: Option<&Self>, kind: StageKind, run: impl FnOnce() -> R) -> R {
        let Some(log) = log else { return run() };
        let begin = Instant::now();
        let result = run();
        log.stage(kind, 0, begin, Instant::now());
        result
    }

    /// When it began.
    pub(crate) fn zero(&self) -> Instant {
        self.zero
    }

    /// Nanoseconds since it began.
    pub(crate) fn since(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The host has done something, on this thread.
    pub(crate) fn stage(&self, kind: StageKind, part: u32, begin: Instant, end: Instant) {
        let thread = thread::current();
        let stage = Stage {
            kind,
            part,
            begin: self.since(begin),
            end: self.since(end),
            thread: thread.id(),
            thread_name: thread.name().map(str::to_owned),
        };
        self.entries.lock().stages.push(stage);
    }

    /// What is to run where, and how it is to be described.
    pub(crate) fn planned(
        &self,
        device: &str,
        side_by_side: bool,
        outline: impl FnOnce() -> PlanOutline + Send + 'static,
    ) {
        let mut entries = self.entries.lock();
        entries.device = device.into();
        entries.side_by_side = side_by_side;
        entries.outline = Some(Box::new(outline));
    }

    /// How finely the device's time will be known.
    pub(crate) fn timed_by(&self, tier: TimestampTier) {
        self.entries.lock().tier = tier;
    }

    /// A run that went its own way is done in another for the profile's sake.
    pub(crate) fn add_caveat(&self, why: &'static str) {
        let mut entries = self.entries.lock();
        if !entries.caveats.contains(&why) {
            entries.caveats.push(why);
        }
    }

    /// A part of what ran, with its times; stretches count from its own beginning.
    pub(crate) fn ran(&self, ran: Vec<ExecutedStep>, stretches: Vec<Interval>) {
        let mut entries = self.entries.lock();
        let first = u32::try_from(entries.ran.len()).unwrap_or(u32::MAX);
        entries.ran.extend(ran);
        entries.stretches.extend(stretches.into_iter().map(|of| Interval { first: of.first + first, ..of }));
    }

    pub(crate) fn stamped(&self, stamps: TimestampRange) {
        self.entries.lock().stamps = Some(stamps);
    }

    /// Where the stamps are, if there are any.
    pub(crate) fn stamps(&self) -> Option<TimestampRange> {
        self.entries.lock().stamps
    }

    /// A submission is done.
    pub(crate) fn landed(&self, part: u32, at: Instant) {
        let at = self.since(at);
        self.entries.lock().landed.push((part, at));
    }

    /// What it comes to. The batch is over; `stamps` are what the device wrote.
    pub(crate) fn profile(&self, stamps: &[u64]) -> Profile {
        let make = || {
            let entries = std::mem::take(&mut *self.entries.lock());
            Profile::of(self.zero, entries, stamps)
        };
        self.profile.get_or_init(make).clone()
    }

    /// The profile, if somebody has asked for it before.
    pub(crate) fn known(&self) -> Option<&Profile> {
        self.profile.get()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
