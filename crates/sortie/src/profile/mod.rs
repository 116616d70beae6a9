//! Profiles and traces: the time of a batch, op by op.
//!
//! While a batch runs, a `Log` only collects times and references. The [`Profile`] is computed when it is asked for.
//! Invariant: profiling changes neither the plan nor the cuts; a profiled batch has the same passes and submissions.
//!
//! Recording, planning, encoding, submitting and completing each write their times into the log. The device writes a
//! timestamp between any two ops (`backend/wgpu/timestamps.rs`); the CPU device reads the clock. A native replay is
//! encoded for its profile, and the profile says so. `plan/describe.rs` describes the plan by name. A step belongs to
//! all ops that were fused into it; a scope has the time of the steps that are entirely its own.
//!
//! Devices have clocks of their own. Device times are placed among host times so that no submission begins before it
//! was submitted.

mod log;
mod outline;
mod scope;
mod step;
mod table;
mod timestamps;
mod trace;
mod watch;

use std::{collections::BTreeMap, fmt, fs::File, io::BufWriter, path::Path, sync::Arc, time::Duration};

use self::log::{Entries, Interval, Stage};
pub(crate) use self::{
    log::{ExecutedStep, Interval as TimedSteps, Log, StageKind, TimestampRange},
    outline::{OpOutline, PlanOutline, ScopeOutline, StepOutline},
    watch::{WatcherList, Watchers},
};
pub use self::{
    scope::ScopeProfile,
    step::{OpProfile, StepProfile},
    trace::Trace,
    watch::Watch,
};
use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
};

/// The profile of a batch: its ops, its scopes, its steps and the host's stages. From
/// [`Batch::profile`](crate::Batch::profile).
///
/// `Display` prints it as a table. The alternate form (`{:#}`) always has one line per step.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let profile = batch.profile(); // first, so that recording is timed too
/// let x = batch.tensor_from(&[0.5_f32; 4096], [64, 64]);
/// let y = batch.scope("layer", |_| x.matmul(x).relu()).read();
/// batch.submit()?;
///
/// let profile = profile.wait()?;
/// println!("{profile}");
/// let matmul = profile.steps().iter().find(|step| step.name().contains("matmul")).expect("it ran");
/// assert!(matmul.time().is_some() && matmul.flops() >= Some(2 * 64 * 64 * 64));
/// assert_eq!(profile.scopes()[0].path(), "layer");
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Profile {{ device: {:?}, tier: {:?}, ops: {}, .. }}", self.device(), self.tier(), self.ops().len())]
pub struct Profile {
    data: Arc<Data>,
}

/// How finely a device's time is known.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let batch = device.batch();
/// # let profile = batch.profile();
/// # let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// # let y = batch.scope("layer", |_| x.matmul(x).relu()).read();
/// # batch.submit()?;
/// # let profile = profile.wait()?;
/// use sortie::profile::TimestampTier;
///
/// match profile.tier() {
///     TimestampTier::Exact | TimestampTier::Inside => println!("each op has its time"),
///     TimestampTier::Pass => println!("each pass has: {:?}", profile.passes().collect::<Vec<_>>()),
///     TimestampTier::Host => println!("waited {:?} in all", profile.stages().wait),
///     _ => {}
/// }
/// assert_eq!(profile.tier(), TimestampTier::Exact); // on the built-in CPU
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimestampTier {
    /// The built-in CPU: the clock is read between any two ops.
    Exact,
    /// The device writes a timestamp after each op, inside the pass.
    Inside,
    /// The device writes timestamps only at the begin and end of a pass: the steps of a pass share its time.
    Pass,
    /// The device writes no timestamps: only the host's wait is known.
    #[default]
    Host,
}

impl fmt::Display for TimestampTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact times",
            Self::Inside => "timestamps inside passes",
            Self::Pass => "timestamps around passes",
            Self::Host => "host time only",
        })
    }
}

/// Host time per stage of a batch.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let batch = device.batch();
/// # let profile = batch.profile();
/// # let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// # let y = batch.scope("layer", |_| x.matmul(x).relu()).read();
/// # batch.submit()?;
/// # let profile = profile.wait()?;
/// let stages = profile.stages();
/// let host = stages.record.unwrap_or_default() + stages.plan + stages.encode + stages.submit;
/// println!("{host:?} of the host's own, {:?} of waiting", stages.wait);
/// assert!(stages.record.is_some()); // profiled before anything was recorded
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stages {
    /// Recording: from [`Batch::profile`](crate::Batch::profile), or from the start of the batch on a watched device, to
    /// the submit. `None` if ops were recorded before profiling began. A run of a replay records nothing.
    pub record: Option<Duration>,
    /// Finding or making the plan: ordering, fusion, memory, generating and parsing kernels.
    pub plan: Duration,
    /// Encoding commands, including compiling new pipelines.
    pub encode: Duration,
    /// Passing the commands to the driver. On the built-in CPU, executing them.
    pub submit: Duration,
    /// From the submit until the device was known to be done.
    pub wait: Duration,
}

struct Data {
    zero: Instant,
    device: String,
    tier: TimestampTier,
    stages: Stages,
    /// In execution order, for traces.
    host: Vec<Stage>,
    ops: Vec<OpProfile>,
    scopes: Vec<ScopeProfile>,
    steps: Vec<StepProfile>,
    /// Begin and end of passes shared by several steps.
    passes: Vec<Option<(u64, u64)>>,
    submissions: Vec<SubmissionTimes>,
    device_time: Option<Duration>,
    caveats: Vec<&'static str>,
    /// Uncertainty of device times relative to host times.
    slack: Option<Duration>,
}

/// One submission of the batch, in nanoseconds since the log began.
#[derive(Clone, Copy, Debug)]
struct SubmissionTimes {
    left: u64,
    completed: u64,
}

impl Profile {
    getters! { self:
        /// Name of the device.
        device: &str = &self.data.device;

        /// How finely the device's time is known.
        tier: TimestampTier = self.data.tier;

        /// Ways in which profiling changed the run; empty if it did not.
        caveats: &[&'static str] = &self.data.caveats;

        /// Host time per stage.
        stages: Stages = self.data.stages;

        /// Device busy time: the sum over submissions of the time from first to last timestamp. `None` without
        /// timestamps.
        device_time: Option<Duration> = self.data.device_time;
    }

    /// From the beginning of the profile until the last submission completed.
    #[must_use]
    pub fn total_time(&self) -> Duration {
        let completed = self.data.submissions.iter().map(|submission| submission.completed);
        let host = self.data.host.iter().map(|stage| stage.end);
        Duration::from_nanos(completed.max().or(host.max()).unwrap_or(0))
    }

    getters! { self:
        /// Number of submissions: the same as without a profile.
        submissions: usize = self.data.submissions.len();

        /// The recorded ops, in recording order.
        ops: &[OpProfile] = &self.data.ops;

        /// The executed steps, in execution order.
        steps: &[StepProfile] = &self.data.steps;
    }

    /// Device time of passes shared by several steps; only with [`TimestampTier::Pass`].
    pub fn passes(&self) -> impl ExactSizeIterator<Item = Option<Duration>> + '_ {
        self.data.passes.iter().map(|pass| pass.map(|(begin, end)| Duration::from_nanos(end - begin)))
    }

    getters! { self:
        /// The scopes ([`Batch::scope`](crate::Batch::scope), [`Record`](crate::Record)), in the order they were
        /// opened.
        scopes: &[ScopeProfile] = &self.data.scopes;

        /// By how much device times may be too early relative to host times, because devices have their own clocks.
        /// `None` if there is only one clock, or no device time.
        clock_slack: Option<Duration> = self.data.slack;
    }

    /// Writes a trace for Perfetto (`ui.perfetto.dev`) or `chrome://tracing`: host stages, submissions, scopes and ops.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<f32>(64)?;
    /// # let path = std::env::temp_dir().join(format!("sortie-doc-trace-{}.json", std::process::id()));
    /// let batch = device.batch();
    /// let profile = batch.profile();
    /// batch.fill(&x, 1.0);
    /// batch.submit()?;
    /// profile.wait()?.write_trace(&path)?;
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`File`](ErrorKind::File) when the file cannot be written.
    pub fn write_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |error| file_error(path, error);
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        let mut writer = trace::TraceWriter::new(file, self.data.zero).map_err(failed)?;
        writer.profile(self).and_then(|()| writer.end()).map_err(failed)
    }

    /// Computes the profile from the log's entries.
    fn of(zero: Instant, entries: Entries, stamps: &[u64]) -> Self {
        let Entries { tier, stages: host, intervals, mut caveats, .. } = entries;
        let outline = entries.outline.map(|outline| outline()).unwrap_or_default();
        let submissions = submissions(&host, &entries.completed);
        let period = entries.stamps.map_or(1.0, |stamps| stamps.period);
        let placed = place_intervals(tier, &intervals, stamps, period, &submissions);
        let mut steps: Vec<StepProfile> = entries.ran.iter().map(|ran| StepProfile::new(*ran, &outline)).collect();
        let mut passes = Vec::new();
        for (interval, time) in intervals.iter().zip(&placed.times) {
            let span = interval.first as usize..(interval.first + interval.count) as usize;
            let shared = (interval.count > 1).then_some(passes.len());
            passes.extend(shared.map(|_| *time));
            for step in steps.get_mut(span).into_iter().flatten() {
                step.interval(*time, shared);
            }
        }
        let side_by_side = entries.side_by_side && steps.windows(2).any(|pair| pair[0].may_overlap(&pair[1]));
        if tier == TimestampTier::Inside && side_by_side {
            caveats.push("timestamps between ops that could have run side by side");
        }
        let stages = Stages::of(&host, &submissions, outline.ops.iter().all(|op| op.recorded.is_some()));
        let ops = OpProfile::all(outline.ops, &steps);
        let scopes = ScopeProfile::all(outline.scopes, &ops, &steps);
        let data = Data {
            zero,
            device: entries.device,
            tier,
            stages,
            host,
            ops,
            scopes,
            steps,
            passes,
            submissions,
            device_time: placed.busy,
            caveats,
            slack: placed.slack,
        };
        Self { data: Arc::new(data) }
    }
}

impl Stages {
    fn of(host: &[Stage], submissions: &[SubmissionTimes], recorded: bool) -> Self {
        let all = |kind: StageKind| {
            let of_kind = host.iter().filter(|stage| stage.kind == kind);
            Duration::from_nanos(of_kind.map(|stage| stage.end - stage.begin).sum())
        };
        let submitted = host.iter().filter(|stage| stage.kind == StageKind::Submit).map(|stage| stage.end).max();
        let completed = submissions.iter().map(|submission| submission.completed).max();
        let wait = completed.zip(submitted).map_or(0, |(completed, submitted)| completed.saturating_sub(submitted));
        let timed = recorded && host.iter().any(|stage| stage.kind == StageKind::Record);
        Self {
            record: timed.then(|| all(StageKind::Record)),
            plan: all(StageKind::Plan),
            encode: all(StageKind::Encode),
            submit: all(StageKind::Submit),
            wait: Duration::from_nanos(wait),
        }
    }
}

/// Submit and completion time of each submission.
fn submissions(host: &[Stage], completed: &[(u32, u64)]) -> Vec<SubmissionTimes> {
    let mut parts: BTreeMap<u32, SubmissionTimes> = BTreeMap::new();
    for stage in host.iter().filter(|stage| stage.kind == StageKind::Submit) {
        parts.insert(stage.part, SubmissionTimes { left: stage.begin, completed: stage.end });
    }
    for (part, at) in completed {
        if let Some(submission) = parts.get_mut(part) {
            submission.completed = submission.completed.max(*at);
        }
    }
    parts.into_values().collect()
}

/// Intervals of device time, converted to host time.
struct Placed {
    /// Begin and end of each, in nanoseconds since the log began.
    times: Vec<Option<(u64, u64)>>,
    busy: Option<Duration>,
    slack: Option<Duration>,
}

fn place_intervals(
    tier: TimestampTier,
    intervals: &[Interval],
    stamps: &[u64],
    period: f64,
    submissions: &[SubmissionTimes],
) -> Placed {
    match tier {
        TimestampTier::Exact => {
            let times: Vec<_> = intervals.iter().map(|interval| Some((interval.begin, interval.end))).collect();
            let busy = intervals.iter().map(|interval| interval.end - interval.begin).sum();
            Placed { times, busy: Some(Duration::from_nanos(busy)), slack: None }
        }
        TimestampTier::Host => Placed { times: vec![None; intervals.len()], busy: None, slack: None },
        TimestampTier::Inside | TimestampTier::Pass => {
            let number = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
            let pairs: Vec<_> =
                intervals.iter().map(|interval| (number(interval.begin), number(interval.end))).collect();
            let mut times = timestamps::times(stamps, &pairs, period);
            // A submission begins after its submit and ends before its observed completion. This bounds the clock
            // offset.
            let (mut least, mut most, mut busy) = (i64::MIN, i64::MAX, None);
            for (part, submission) in (0_u32..).zip(submissions) {
                // Intervals are sorted by submission.
                let [first, end] = [part, part + 1].map(|part| intervals.partition_point(|of| of.part < part));
                let own = || intervals[first..end].iter().zip(&times[first..end]);
                let numbers: Vec<u32> =
                    own().flat_map(|(interval, _)| [number(interval.begin), number(interval.end)]).collect();
                if let Some(time) = timestamps::extent(stamps, &numbers, period) {
                    busy = Some(busy.unwrap_or(0_u64).saturating_add(time));
                }
                let begin = own().find_map(|(_, time)| time.map(|(begin, _)| begin));
                let end = own().filter_map(|(_, time)| time.map(|(_, end)| end)).max();
                if let Some((begin, end)) = begin.zip(end) {
                    least = least.max(submission.left.cast_signed().saturating_sub(begin.cast_signed()));
                    most = most.min(submission.completed.cast_signed().saturating_sub(end.cast_signed()));
                }
            }
            let shift = if least == i64::MIN { 0 } else { least };
            for (begin, end) in times.iter_mut().flatten() {
                *begin = begin.saturating_add_signed(shift);
                *end = end.saturating_add_signed(shift);
            }
            let slack =
                (least != i64::MIN).then(|| Duration::from_nanos(most.saturating_sub(least).max(0).unsigned_abs()));
            Placed { times, busy: busy.map(Duration::from_nanos), slack }
        }
    }
}

fn file_error(path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::File, format!("the trace {} cannot be written", path.display())).caused_by(error)
}
