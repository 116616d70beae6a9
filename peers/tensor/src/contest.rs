//! Turns, times and ratios.

use std::time::{Duration, Instant};

/// There are no fewer rounds than this.
const FEWEST: usize = 7;
/// Microseconds: whoever takes longer would leave the others too few rounds, and takes part in the first ones only.
const SLOW: f64 = 400_000.0;
/// There are no more rounds than this.
const MOST: usize = 400;

/// What can go wrong here is only told to a reader.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
/// Microseconds, and the answer if it was asked for.
pub(crate) type Run = Outcome<(f64, Vec<f32>)>;

/// One way to compute something on one device.
pub(crate) trait Runner {
    /// Runs once: the time from recording to completion, and if `wanted` the answer, read back outside that time.
    fn run(&mut self, wanted: bool) -> Run;
}

/// How far an answer may be from the baseline's.
#[derive(Clone, Copy)]
pub(crate) enum Tolerance {
    /// Relative to the value, or absolute where that is below one.
    Relative(f32),
    /// For functions that are approximations by design.
    Absolute(f32),
}

impl Tolerance {
    fn holds(self, found: f32, expected: f32) -> bool {
        let bound = match self {
            Self::Relative(bound) => bound * expected.abs().max(1.0),
            Self::Absolute(bound) => bound,
        };
        (found - expected).abs() <= bound
    }
}

/// A runner with a name.
pub(crate) struct Contender {
    /// What the table calls it.
    pub(crate) name: &'static str,
    /// How its answer is judged.
    pub(crate) tolerance: Tolerance,
    /// What runs.
    pub(crate) runner: Box<dyn Runner>,
}

impl Contender {
    /// A contender with an exact answer.
    pub(crate) fn new(name: &'static str, runner: impl Runner + 'static) -> Self {
        Self { name, tolerance: Tolerance::Relative(1e-3), runner: Box::new(runner) }
    }

    /// A contender whose answer is approximate by design.
    pub(crate) fn approximate(name: &'static str, runner: impl Runner + 'static) -> Self {
        Self { name, tolerance: Tolerance::Absolute(3e-3), runner: Box::new(runner) }
    }
}

/// What is computed, and by whom: the first contender is the baseline.
pub(crate) struct Contest {
    /// What the table calls the case.
    pub(crate) case: &'static str,
    /// Its size.
    pub(crate) n: usize,
    /// Who takes part.
    pub(crate) contenders: Vec<Contender>,
}

/// How long a contest may take.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Spent on each contender before anything is timed.
    pub(crate) warm: Duration,
    /// Spent on all timed rounds together.
    pub(crate) timed: Duration,
    /// The rounds a slow contender takes part in.
    pub(crate) slow: usize,
}

/// A line of the table.
pub(crate) struct Row {
    /// The case's name.
    pub(crate) case: &'static str,
    /// The case's size.
    pub(crate) n: usize,
    /// The contender's name.
    pub(crate) contender: &'static str,
    /// The baseline's name.
    pub(crate) baseline: &'static str,
    /// The rounds it took part in.
    pub(crate) rounds: usize,
    /// The median time of a run.
    pub(crate) microseconds: f64,
    /// The median of time over the baseline's time in the same round.
    pub(crate) ratio: f64,
}

impl Contest {
    /// Compares the answers, warms everyone up, times all by turns, and compares again: what is tuned on the way may have become wrong.
    pub(crate) fn hold(mut self, pace: Pace) -> Outcome<Vec<Row>> {
        self.check()?;
        self.warm(pace.warm)?;
        let times = self.times(pace)?;
        self.check()?;
        Ok(self.rows(&times))
    }

    fn check(&mut self) -> Outcome<()> {
        let mut expected: Option<Vec<f32>> = None;
        for contender in &mut self.contenders {
            let (_, found) = contender.runner.run(true)?;
            let Some(expected) = &expected else {
                expected = Some(found);
                continue;
            };
            let wrong = found.iter().zip(expected).position(|(a, b)| !contender.tolerance.holds(*a, *b));
            if found.len() != expected.len() || wrong.is_some() {
                let at = wrong.map(|at| format!(": {} at {at}, not {}", found[at], expected[at])).unwrap_or_default();
                return Err(format!("{}: {} has another answer{at}", self.case, contender.name).into());
            }
        }
        Ok(())
    }

    /// Runs each until its time is up. Whoever tunes itself has done so in its first run, the one that was checked.
    fn warm(&mut self, warm: Duration) -> Outcome<()> {
        for contender in &mut self.contenders {
            let start = Instant::now();
            while start.elapsed() < warm {
                contender.runner.run(false)?;
            }
        }
        Ok(())
    }

    /// Times by round and contender. Each round begins with the next contender, so that nobody always follows the same one.
    fn times(&mut self, pace: Pace) -> Outcome<Vec<Vec<Option<f64>>>> {
        let count = self.contenders.len();
        let mut rounds: Vec<Vec<Option<f64>>> = Vec::new();
        let start = Instant::now();
        while rounds.len() < FEWEST || (start.elapsed() < pace.timed && rounds.len() < MOST) {
            let first = rounds.len() % count;
            let mut round = vec![None; count];
            for at in (first..count).chain(0..first) {
                let slow = rounds.first().is_some_and(|round| round[at].is_some_and(|time| time > SLOW));
                if !slow || rounds.len() < pace.slow {
                    round[at] = Some(self.contenders[at].runner.run(false)?.0);
                }
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn rows(&self, rounds: &[Vec<Option<f64>>]) -> Vec<Row> {
        let row = |(at, contender): (usize, &Contender)| Row {
            case: self.case,
            n: self.n,
            contender: contender.name,
            baseline: self.contenders[0].name,
            rounds: rounds.iter().filter(|round| round[at].is_some()).count(),
            microseconds: median(rounds.iter().filter_map(|round| round[at])),
            ratio: median(rounds.iter().filter_map(|round| Some(round[at]? / round[0]?))),
        };
        self.contenders.iter().enumerate().map(row).collect()
    }
}

impl Row {
    /// The row for a reader.
    pub(crate) fn text(&self) -> String {
        let Self { case, n, contender, baseline, rounds, microseconds, ratio } = self;
        format!("{case:<8} {n:>8} {contender:<16} {microseconds:>12.1} µs {ratio:>8.3}× of {baseline}, {rounds} rounds")
    }

    /// The row for a program.
    pub(crate) fn json(&self, device: &str) -> String {
        let Self { case, n, contender, baseline, microseconds, ratio, .. } = self;
        format!(
            "{{\"bench\":\"peers-tensor\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{contender}\",\"metric\":\"us_per_run\",\"value\":{microseconds:.2},\"baseline\":\"{baseline}\",\"ratio\":{ratio:.4}}}"
        )
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
