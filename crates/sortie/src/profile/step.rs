//! Profiles of the recorded ops and of the steps that executed them.

use std::{panic::Location, sync::Arc, time::Duration};

use smallvec::SmallVec;

use super::{ExecutedStep, OpOutline, PlanOutline, StepOutline};

/// An executed step: a dispatch, a copy, a fill, a write, a read, or internal work such as zeroing scratch.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let batch = device.batch();
/// # let profile = batch.profile();
/// # let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// # let y = batch.scope("layer", |_| x.exp().relu()).read();
/// # batch.submit()?;
/// # let profile = profile.wait()?;
/// for step in profile.steps() {
///     println!("{} for ops {:?}: {:?}", step.name(), step.ops(), step.time());
/// }
/// assert!(profile.steps().iter().any(|step| step.ops() == [1, 2])); // exp and relu
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StepProfile {
    outline: StepOutline,
    submission: usize,
    /// Since the profile began, in nanoseconds.
    time: Option<(u64, u64)>,
    pass: Option<usize>,
    encode: Duration,
}

impl StepProfile {
    pub(super) fn new(ran: ExecutedStep, outline: &PlanOutline) -> Self {
        let unknown = || StepOutline { name: "op".into(), ..StepOutline::default() };
        Self {
            outline: outline.steps.get(ran.step as usize).cloned().unwrap_or_else(unknown),
            submission: ran.part as usize,
            time: None,
            pass: None,
            encode: Duration::from_nanos(ran.encode.into()),
        }
    }

    pub(super) fn interval(&mut self, time: Option<(u64, u64)>, pass: Option<usize>) {
        self.pass = pass;
        if pass.is_none() {
            self.time = time;
        }
    }

    /// Whether the planner allows it to run concurrently with another step.
    pub(super) fn may_overlap(&self, other: &Self) -> bool {
        self.submission == other.submission && self.outline.wave.is_some() && self.outline.wave == other.outline.wave
    }

    getters! { self:
        /// The entry point of the kernel; for tensor operations, the fused operations (`matmul+add+gelu`); for
        /// transfers, their kind.
        name: &str = &self.outline.name;

        /// The recorded ops that it executes, by number: several if they were fused, none for internal work such as
        /// zeroing scratch.
        ops: &[usize] = &self.outline.ops;

        /// The submission that contained it, by number.
        submission: usize = self.submission;

        /// Device time. `None` ("n/a") if the device writes no timestamp, writes an implausible one, or its clock is
        /// too coarse.
        time: Option<Duration> = self.time.map(|(begin, end)| Duration::from_nanos(end - begin));

        /// When the device began it, since the profile began. If the device has its own clock, the start is derived
        /// from [submission and completion times](super::Profile::clock_slack).
        begin: Option<Duration> = self.time.map(|(begin, _)| Duration::from_nanos(begin));

        /// Bytes read and written: the full size of each binding that the kernel reads, plus that of each it writes; a
        /// copy counts both. A kernel that touches only part of a binding moves less.
        bytes: u64 = self.outline.bytes_read + self.outline.bytes_written;

        /// The part of [`StepProfile::bytes`] that is read.
        bytes_read: u64 = self.outline.bytes_read;

        /// The part of [`StepProfile::bytes`] that is written.
        bytes_written: u64 = self.outline.bytes_written;

        /// Floating-point operations: known for tensor operations, and for dispatches that [declare
        /// them](crate::Dispatch::flops).
        flops: Option<u64> = self.outline.flops;

        /// Bytes per second.
        bytes_per_second: Option<f64> = rate(self.bytes(), self.time());

        /// Floating-point operations per second.
        flops_per_second: Option<f64> = rate(self.outline.flops?, self.time());

        /// Host time spent encoding it; zero on the built-in CPU, which encodes no commands.
        encode: Duration = self.encode;

        /// The pass whose time it shares with other steps, by number in [`Profile::passes`](super::Profile::passes).
        pass: Option<usize> = self.pass;
    }

    pub(super) fn span(&self) -> Option<(u64, u64)> {
        self.time
    }
}

/// Sums over several steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) steps: usize,
    /// Steps whose time is unknown.
    pub(super) unknown: usize,
    /// Time of the others; `None` if there are none.
    pub(super) time: Option<Duration>,
    pub(super) bytes: u64,
    pub(super) flops: u64,
    pub(super) encode: Duration,
}

impl Totals {
    pub(super) fn add(&mut self, step: &StepProfile) {
        self.steps += 1;
        self.bytes += step.bytes();
        self.flops = self.flops.saturating_add(step.flops().unwrap_or(0));
        self.encode += step.encode();
        match step.time() {
            Some(time) => *self.time.get_or_insert_default() += time,
            None => self.unknown += 1,
        }
    }

    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        rate(self.bytes, self.time.filter(|_| self.unknown == 0))
    }

    pub(super) fn flops_per_second(&self) -> Option<f64> {
        rate(self.flops, self.time.filter(|_| self.unknown == 0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(amount: u64, time: Option<Duration>) -> Option<f64> {
    let seconds = time.filter(|time| !time.is_zero())?.as_secs_f64();
    (amount > 0).then(|| amount as f64 / seconds)
}

/// A recorded op.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let batch = device.batch();
/// # let profile = batch.profile();
/// # let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// # let y = batch.scope("layer", |_| x.exp().relu()).read();
/// # batch.submit()?;
/// # let profile = profile.wait()?;
/// let relu = &profile.ops()[2];
/// assert_eq!((relu.what(), relu.fused_with()), ("relu", &[1][..]));
/// assert_eq!(relu.location().file(), file!());
/// println!("{:?}, with what it shares its kernel with", relu.time());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpProfile {
    number: usize,
    outline: OpOutline,
    record: Option<Duration>,
    steps: SmallVec<[usize; 1]>,
    fused_with: Vec<usize>,
    kernel: Option<Arc<str>>,
    time: Option<Duration>,
}

impl OpProfile {
    pub(super) fn all(outlines: Vec<OpOutline>, steps: &[StepProfile]) -> Vec<Self> {
        let mut last = Some(0);
        let own = |(number, outline): (usize, OpOutline)| {
            let recorded = outline.recorded;
            let record = recorded.zip(last).map(|(at, last)| Duration::from_nanos(at.saturating_sub(last)));
            last = recorded.or(last);
            let (steps, fused_with) = (SmallVec::new(), Vec::new());
            Self { number, outline, record, steps, fused_with, kernel: None, time: None }
        };
        let mut ops: Vec<Self> = outlines.into_iter().enumerate().map(own).collect();
        for (number, step) in steps.iter().enumerate() {
            for op in step.ops() {
                let Some(of) = ops.get_mut(*op) else { continue };
                let known = of.steps.is_empty() || of.time.is_some();
                of.time = step.time().filter(|_| known).map(|time| time + of.time.unwrap_or_default());
                of.steps.push(number);
                of.kernel.get_or_insert_with(|| step.outline.name.clone());
                let others = step.ops().iter().filter(|other| *other != op && !of.fused_with.contains(other));
                let others: SmallVec<[usize; 8]> = others.copied().collect();
                of.fused_with.extend(others);
            }
        }
        ops
    }

    getters! { self:
        /// Its number, as in errors.
        number: usize = self.number;

        /// The recorded operation: `dispatch`, `copy`, `matmul`.
        what: &str = &self.outline.what;

        /// Its label; empty if none was set.
        label: &str = &self.outline.label;

        /// The source line that recorded it.
        location: &'static Location<'static> = self.outline.at;

        /// The innermost scope that contains it, by number in [`Profile::scopes`](super::Profile::scopes).
        scope: Option<usize> = self.outline.scope;

        /// The kernel that executed it, alone or fused; `None` if nothing ran for it: an op of no elements, an unused
        /// tensor.
        kernel: Option<&str> = self.kernel.as_deref();

        /// The ops fused into the same kernels, by number.
        fused_with: &[usize] = &self.fused_with;

        /// The steps that executed it, by number in [`Profile::steps`](super::Profile::steps). Usually one; several if
        /// it was split to keep a submission short, or needs several kernels.
        steps: &[usize] = &self.steps;

        /// Device time of those steps. A fused op reports the time of its whole kernel, so times of fused ops do not
        /// add up.
        time: Option<Duration> = self.time;

        /// Time from the previous op, or from [`Batch::profile`](crate::Batch::profile), until it was recorded,
        /// including the program's own work in between. `None` for ops recorded before profiling began.
        record: Option<Duration> = self.record;
    }
}
