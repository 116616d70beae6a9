//! The report of `sortie tune`: the best submit policy of a device.

use std::{fmt, path::PathBuf, time::Duration};

use super::{
    MatmulReport,
    rounds::{self, Measured},
};
use crate::{
    error::Result,
    options::DeviceOptions,
    policy::{Split, SubmitPolicy},
    tuning::File,
};

/// Measurements of a device: submit policies and matrix products.
///
/// ```
/// use std::time::Duration;
/// use sortie::{DeviceOptions, tune::TuneReport};
///
/// let options = DeviceOptions::default().with_device("cpu");
/// # if false {
/// let report = TuneReport::measure(&options, Duration::from_secs(60), |done| eprintln!("{:.0} %", done * 100.0))?;
/// println!("{report}");
/// report.save()?; // devices that are opened from now on use it
/// # }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TuneReport {
    products: MatmulReport,
    works: Vec<Workload>,
    timings: Vec<Timing>,
    churn: Vec<ItemTiming>,
    noise: f64,
    /// The default of a device of its kind.
    usual: SubmitPolicy,
    policy: SubmitPolicy,
}

/// The measured work: many dispatches, each of which depends on the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// `small`, `medium` or `large`.
    pub name: &'static str,
    /// Elements per dispatch.
    pub items: usize,
    /// Dispatches.
    pub ops: usize,
}

/// A measured way to run a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One batch, split in this way and waited for.
    Cut(Split),
    /// Four whole batches, submitted without waiting, with at most this many in flight.
    Depth(usize),
}

/// One measured way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The workload.
    pub work: Workload,
    /// The way it was run.
    pub way: Strategy,
    /// Whether this is a repeated baseline, measured to estimate the noise.
    pub control: bool,
    /// Median time from recording to completion.
    pub time: Duration,
    /// Median ratio to the baseline of the same round: [`Split::Never`], or a depth of 2.
    pub ratio: f64,
}

/// Items of a copy and a dispatch each, run in three ways. Ratios are medians of the ratios within rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemTiming {
    /// Number of items.
    pub items: usize,
    /// Median time with one batch per item.
    pub one_by_one: Duration,
    /// Median time with one batch into which all copies and dispatches are recorded op by op.
    pub op_by_op: Duration,
    /// Median time with one batch and [`Batch::record_all`](crate::Batch::record_all), each item a
    /// [`Record`](crate::Record).
    pub together: Duration,
    /// Ratio of `one_by_one` to `together`.
    pub ratio: f64,
    /// Ratio of `op_by_op` to `together`.
    pub op_by_op_ratio: f64,
    /// Ratio of a second measurement of `together` to `together`: the noise of the other ratios.
    pub control: f64,
}

/// Minimum gain for which a policy other than the default is chosen.
const WORTHWHILE: f64 = 0.05;
impl Strategy {
    /// All ways. `true` marks a control, which repeats the baseline of its kind.
    pub(super) fn all(work: Workload) -> Vec<(Self, bool)> {
        let every = [1, 8, 64, 512, 1024].into_iter().filter(|ops| *ops < work.ops);
        let cuts = [Split::Never].into_iter().chain(every.map(Split::Every)).chain([Split::default()]);
        let mut all: Vec<_> = cuts.map(|split| (Self::Cut(split), false)).collect();
        all.push((Self::Cut(Split::Never), true));
        all.extend([1, 2, 3].map(|depth| (Self::Depth(depth), false)));
        all.push((Self::Depth(2), true));
        all
    }

    /// The way it is compared with.
    pub(super) fn baseline(self) -> Self {
        match self {
            Self::Cut(_) => Self::Cut(Split::Never),
            Self::Depth(_) => Self::Depth(SubmitPolicy::default().in_flight),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(split) => split.fmt(f),
            Self::Depth(depth) => f.pad(&format!("{} batches, {depth} in flight", rounds::STREAM)),
        }
    }
}

impl TuneReport {
    /// Measures a device for about `time`, and reports the completed fraction to `progress`. Includes
    /// [`Device::tune`](crate::Device::tune).
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for the noop device, which runs nothing; else as
    /// [`Device::open_with`](crate::Device::open_with) and [`Batch::submit`](crate::Batch::submit).
    pub fn measure(options: &DeviceOptions, time: Duration, mut progress: impl FnMut(f64)) -> Result<Self> {
        Ok(Self::of(rounds::measure(options, time, &mut progress)?))
    }

    fn of(measured: Measured) -> Self {
        let Measured { usual, products, works, timings, churn } = measured;
        let controls = timings.iter().filter(|timing| timing.control);
        let noise = controls.map(|timing| (timing.ratio - 1.0).abs()).fold(0.0, f64::max);
        let mut report = Self { products, works, timings, churn, noise, usual, policy: usual };
        let choose = |ways: Vec<Strategy>| {
            let rated = ways.into_iter().map(|way| (way, report.overall(way)));
            let better = rated.filter(|(way, overall)| {
                *overall < 1.0 - report.margin() && report.worst(*way) < 1.0 + report.margin()
            });
            better.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(way, _)| way)
        };
        let ways = |cuts: bool| {
            let all = report.ways().filter(|way| matches!(way, Strategy::Cut(_)) == cuts);
            all.collect::<Vec<_>>()
        };
        let (split, depth) = (choose(ways(true)), choose(ways(false)));
        if let Some(Strategy::Cut(split)) = split {
            report.policy.split = split;
        }
        if let Some(Strategy::Depth(depth)) = depth {
            report.policy.in_flight = depth;
        }
        report
    }

    getters! { self:
        /// The best policy for the device. Differs from the [default](SubmitPolicy) only if the gain exceeds the noise.
        policy: SubmitPolicy = self.policy;

        /// All measurements.
        timings: &[Timing] = &self.timings;

        /// The measured matrix products.
        products: &MatmulReport = &self.products;

        /// The cost of one batch per item compared with one batch for all, and of the ways to record that batch.
        churn: &[ItemTiming] = &self.churn;

        /// Maximum deviation of a control from 1.
        noise: f64 = self.noise;

        /// Minimum gain for a policy to be chosen: above the noise, and at least 5 %.
        margin: f64 = WORTHWHILE.max(2.0 * self.noise);
    }

    /// The conclusions in a few sentences.
    #[must_use]
    pub fn verdict(&self) -> String {
        let usual = self.usual;
        let best = |cuts: bool| {
            let ways = self.ways().filter(|way| *way != way.baseline() && matches!(way, Strategy::Cut(_)) == cuts);
            let rated = ways.map(|way| (way, self.overall(way)));
            rated.min_by(|one, other| one.1.total_cmp(&other.1)).map_or_else(String::new, |(way, overall)| {
                format!("the best other, {way}, takes {overall:.2} of the time")
            })
        };
        let split = match self.policy.split {
            split if split == usual.split => {
                let unless = if split == Split::Never { "" } else { " unless they are longer than a budget" };
                format!("No benefit from splitting here: {}. Batches stay whole{unless}.", best(true))
            }
            split => {
                format!("Splitting helps here: {split} takes {:.2} of the time.", self.overall(Strategy::Cut(split)))
            }
        };
        let depth = match self.policy.in_flight {
            depth if depth == usual.in_flight => format!("{depth} submissions in flight will do: {}.", best(false)),
            depth => format!(
                "{depth} in flight take {:.2} of the time of {}.",
                self.overall(Strategy::Depth(depth)),
                usual.in_flight
            ),
        };
        let nothing = format!("(Differences under {:.0} % are noise.)", self.margin() * 100.0);
        [split, depth, nothing].into_iter().chain(self.recording()).collect::<Vec<_>>().join(" ")
    }

    /// The conclusion about recording items.
    fn recording(&self) -> Option<String> {
        let last = self.churn.last()?;
        let overall = self.churn.iter().map(|churn| churn.op_by_op_ratio.ln()).sum::<f64>() / self.churn.len() as f64;
        let noise = self.churn.iter().map(|churn| (churn.control - 1.0).abs()).fold(0.0, f64::max);
        let margin = WORTHWHILE.max(2.0 * noise);
        let outcome = match overall.exp() {
            overall if overall < 1.0 - margin => "op by op is faster",
            overall if overall > 1.0 + margin => "`record_all` is faster",
            _ => "no difference",
        };
        let ratios: Vec<_> =
            self.churn.iter().map(|churn| format!("{:.2} for {}", churn.op_by_op_ratio, churn.items)).collect();
        Some(format!(
            "{} pieces of a copy and a dispatch take {:.2} × as long in a batch each as with `record_all` in one. Recorded op by op into one batch they take {} × as long as with `record_all`: {outcome}, where less than {:.0} % counts for nothing.",
            last.items,
            last.ratio,
            ratios.join(", "),
            margin * 100.0
        ))
    }

    /// Writes the policy, and the way to multiply matrices, to the tuning file, for devices opened later. Returns the
    /// file's path.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the tuning file is off, or cannot be written.
    pub fn save(&self) -> Result<PathBuf> {
        let (split, in_flight) = (self.policy.split.to_string(), self.policy.in_flight.to_string());
        let lines = [("split", split.as_str()), ("in_flight", &in_flight), self.products.line()];
        File::save(self.products.file.as_ref(), &lines)
    }

    fn ways(&self) -> impl Iterator<Item = Strategy> + '_ {
        let first = self.works.first().copied();
        self.timings.iter().filter(move |timing| Some(timing.work) == first && !timing.control).map(|timing| timing.way)
    }

    fn ratios(&self, way: Strategy) -> impl Iterator<Item = f64> + '_ {
        self.timings.iter().filter(move |timing| timing.way == way && !timing.control).map(|timing| timing.ratio)
    }

    /// The geometric mean over the workloads. A workload with too few ops for a way to differ counts as 1.
    fn overall(&self, way: Strategy) -> f64 {
        (self.ratios(way).map(f64::ln).sum::<f64>() / self.works.len().max(1) as f64).exp()
    }

    fn worst(&self, way: Strategy) -> f64 {
        self.ratios(way).fold(1.0, f64::max)
    }
}

impl fmt::Display for TuneReport {
    /// A table of all measurements, and the verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<30}", "")?;
        for work in &self.works {
            write!(f, " {:>24}", format!("{} ({} × {})", work.name, work.ops, work.items))?;
        }
        writeln!(f)?;
        let Some(first) = self.works.first() else { return Ok(()) };
        for row in self.timings.iter().filter(|timing| timing.work == *first) {
            let name = if row.control { format!("{}, again", row.way) } else { row.way.to_string() };
            write!(f, "{name:<30}")?;
            for work in &self.works {
                let same =
                    |timing: &&Timing| timing.work == *work && timing.way == row.way && timing.control == row.control;
                let cell = match self.timings.iter().find(same) {
                    Some(timing) => format!("{:.2} ms {:>6.2}", timing.time.as_secs_f64() * 1e3, timing.ratio),
                    None => "same".into(),
                };
                write!(f, " {cell:>24}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<30} {:>24} {:>24} {:>24}",
            "copy + dispatch", "a batch each", "one batch, op by op", "one batch, record_all"
        )?;
        for churn in &self.churn {
            let cell = |time: Duration, ratio: f64| format!("{:.3} ms {ratio:>6.2}", time.as_secs_f64() * 1e3);
            let apart = cell(churn.one_by_one, churn.ratio);
            let op_by_op = cell(churn.op_by_op, churn.op_by_op_ratio);
            let together = cell(churn.together, 1.0);
            writeln!(f, "{:<30} {apart:>24} {op_by_op:>24} {together:>24}", churn.items)?;
        }
        writeln!(f)?;
        writeln!(f, "{}", self.products)?;
        writeln!(f)?;
        writeln!(f, "{}", self.verdict())?;
        write!(f, "Policy: {}", self.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(name: &'static str, way: Strategy, control: bool, ratio: f64) -> Timing {
        Timing { work: work(name), way, control, time: Duration::from_millis(1), ratio }
    }

    fn work(name: &'static str) -> Workload {
        Workload { name, items: 1, ops: 1000 }
    }

    fn report(timings: Vec<Timing>) -> TuneReport {
        let works = vec![work("a"), work("b")];
        TuneReport::of(Measured {
            usual: SubmitPolicy::default(),
            products: MatmulReport::of(Vec::new()),
            works,
            timings,
            churn: Vec::new(),
        })
    }

    /// A report with these ratios of op by op to `record_all`, and of `record_all` to itself.
    fn churned(op_by_op: [f64; 2], control: f64) -> TuneReport {
        let time = Duration::from_millis(1);
        let churn = [1, 100].into_iter().zip(op_by_op).map(|(items, op_by_op_ratio)| ItemTiming {
            items,
            one_by_one: time,
            op_by_op: time,
            together: time,
            ratio: 3.4,
            op_by_op_ratio,
            control,
        });
        TuneReport { churn: churn.collect(), ..report(Vec::new()) }
    }

    #[test]
    fn the_verdict_says_whether_recording_op_by_op_differs_from_record_all() {
        for (ratios, control, outcome) in [
            ([1.0, 1.04], 1.0, "no difference"),
            ([1.1, 1.2], 1.0, "`record_all` is faster"),
            ([0.8, 0.9], 1.0, "op by op is faster"),
            ([0.8, 0.9], 1.1, "no difference"),
        ] {
            let report = churned(ratios, control);
            let verdict = report.verdict();
            let told = format!("take {:.2} for 1, {:.2} for 100 × as long as with `record_all`", ratios[0], ratios[1]);
            assert!(verdict.contains(&told) && verdict.contains(&format!(": {outcome}, where")), "{verdict}");
            assert!(verdict.contains("100 pieces of a copy and a dispatch take 3.40 × as long"), "{verdict}");
        }
    }

    /// A report with these ratios of a way in both workloads, and of the control.
    fn found(way: Strategy, ratios: [f64; 2], control: f64) -> TuneReport {
        let both = ["a", "b"].into_iter().zip(ratios);
        let mut timings: Vec<_> = both.map(|(name, ratio)| timing(name, way, false, ratio)).collect();
        timings.extend(["a", "b"].map(|name| timing(name, way.baseline(), false, 1.0)));
        timings.push(timing("a", way.baseline(), true, control));
        report(timings)
    }

    #[test]
    fn a_way_that_gains_more_than_chance_is_chosen() {
        let every = Split::Every(64);
        let gained = found(Strategy::Cut(every), [0.7, 0.9], 1.01);
        assert_eq!(gained.policy(), SubmitPolicy { split: every, ..SubmitPolicy::default() });
        assert!(gained.verdict().contains("Splitting helps here: every 64 ops takes 0.79"), "{}", gained.verdict());
        assert_eq!(found(Strategy::Depth(3), [0.7, 0.9], 1.01).policy().in_flight, 3);
    }

    #[test]
    fn what_chance_explains_is_no_benefit() {
        let every = Strategy::Cut(Split::Every(64));
        for (ratios, control) in [([0.97, 0.98], 1.0), ([0.8, 0.9], 1.1), ([0.5, 1.2], 1.0)] {
            let report = found(every, ratios, control);
            assert_eq!(report.policy(), SubmitPolicy::default(), "{ratios:?}");
            assert!(report.verdict().starts_with("No benefit from splitting here"), "{}", report.verdict());
        }
    }

    #[test]
    fn ways_that_do_not_differ_are_left_out_and_the_baseline_is_there_twice() {
        let few = Strategy::all(Workload { name: "few", items: 1, ops: 48 });
        assert!(
            few.contains(&(Strategy::Cut(Split::Every(8)), false))
                && !few.contains(&(Strategy::Cut(Split::Every(64)), false))
        );
        for way in [Strategy::Cut(Split::Never), Strategy::Depth(2)] {
            assert_eq!(few.iter().filter(|(other, _)| *other == way).count(), 2);
            assert_eq!(way.baseline(), way);
        }
    }

    #[test]
    fn switched_off_nothing_is_saved_and_that_is_said() {
        let error = report(Vec::new()).save().expect_err("there is no file");
        assert!(error.to_string().contains("switched off"), "{error}");
    }
}
