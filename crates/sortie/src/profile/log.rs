//! The profile log of a batch: raw times and counts. The profile is computed only when it is requested.

use std::{
    sync::OnceLock,
    thread::{self, ThreadId},
};

use parking_lot::Mutex;

use super::{PlanOutline, Profile, TimestampTier};
use crate::clock::Instant;

/// The log of one batch, or of one run of a replay.
#[derive(derive_more::Debug)]
#[debug("Log {{ .. }}")]
pub(crate) struct Log {
    /// When the log began.
    pub(crate) zero: Instant,
    entries: Mutex<Entries>,
    /// Computed on the first request.
    profile: OnceLock<Profile>,
}

/// The recorded entries.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) device: String,
    pub(super) tier: TimestampTier,
    /// Whether the device may run several ops concurrently.
    pub(super) side_by_side: bool,
    pub(super) stages: Vec<Stage>,
    pub(super) outline: Option<Box<dyn FnOnce() -> PlanOutline + Send>>,
    pub(super) ran: Vec<ExecutedStep>,
    pub(super) intervals: Vec<Interval>,
    pub(super) stamps: Option<TimestampRange>,
    /// When each submission completed: its number and the time.
    pub(super) completed: Vec<(u32, u64)>,
    /// Ways in which profiling changed the run.
    pub(super) caveats: Vec<&'static str>,
}

/// A host stage of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageKind {
    Record,
    Plan,
    Encode,
    Submit,
}

/// An executed host stage, in nanoseconds since the log began.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) kind: StageKind,
    /// The submission it belongs to; 0 for stages of the whole batch.
    pub(crate) part: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) thread: ThreadId,
    pub(crate) thread_name: Option<String>,
}

/// An executed step, in execution order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutedStep {
    /// Index in the plan's list of steps.
    pub(crate) step: u32,
    pub(crate) part: u32,
    /// Encoding time in nanoseconds.
    pub(crate) encode: u32,
}

/// `count` consecutive executed steps between two times: timestamp indices, or nanoseconds since the log began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) part: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// The range of the device's timestamps within the batch's readback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampRange {
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// Nanoseconds per tick.
    pub(crate) period: f64,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now(), entries: Mutex::default(), profile: OnceLock::new() }
    }

    /// Runs a host stage, and logs its time if there is a log.
    pub(crate) fn time<R>(log: Option<&Self>, kind: StageKind, run: impl FnOnce() -> R) -> R {
        let Some(log) = log else { return run() };
        let begin = Instant::now();
        let result = run();
        log.stage(kind, 0, begin, Instant::now());
        result
    }

    /// Nanoseconds since the log began.
    pub(crate) fn since(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Logs a host stage that ran on this thread.
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

    /// Sets the device and the description of the plan.
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

    /// Sets the timestamp tier.
    pub(crate) fn timed_by(&self, tier: TimestampTier) {
        self.entries.lock().tier = tier;
    }

    /// Notes that profiling changed how the batch was run.
    pub(crate) fn add_caveat(&self, why: &'static str) {
        let mut entries = self.entries.lock();
        if !entries.caveats.contains(&why) {
            entries.caveats.push(why);
        }
    }

    /// Appends executed steps and their intervals. Intervals count from the first of these steps.
    pub(crate) fn ran(&self, ran: Vec<ExecutedStep>, intervals: Vec<Interval>) {
        let mut entries = self.entries.lock();
        let first = u32::try_from(entries.ran.len()).unwrap_or(u32::MAX);
        entries.ran.extend(ran);
        entries.intervals.extend(intervals.into_iter().map(|of| Interval { first: of.first + first, ..of }));
    }

    pub(crate) fn stamped(&self, stamps: TimestampRange) {
        self.entries.lock().stamps = Some(stamps);
    }

    /// The range of the timestamps, if there are any.
    pub(crate) fn stamps(&self) -> Option<TimestampRange> {
        self.entries.lock().stamps
    }

    /// Logs that a submission completed.
    pub(crate) fn completed(&self, part: u32, at: Instant) {
        let at = self.since(at);
        self.entries.lock().completed.push((part, at));
    }

    /// Computes the profile of a completed batch. `stamps` are the device's timestamps.
    pub(crate) fn profile(&self, stamps: &[u64]) -> Profile {
        let make = || {
            let entries = std::mem::take(&mut *self.entries.lock());
            Profile::of(self.zero, entries, stamps)
        };
        self.profile.get_or_init(make).clone()
    }

    /// The profile, if it was requested before.
    pub(crate) fn known(&self) -> Option<&Profile> {
        self.profile.get()
    }
}
