//! Contenders take turns; their answers are compared.

use std::time::{Duration, Instant};

pub(crate) use sortie_bench::Outcome;
use sortie_bench::{Case, Contender as Name, Report, Rounds};

/// A contender whose first run takes longer takes part in the first rounds only, so that the others get enough rounds.
const MAX_US: f64 = 400_000.0;

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
    /// How its answer is checked.
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

/// What is computed, and all contenders: the first is the baseline.
pub(crate) struct Comparison {
    /// What the table calls the case.
    pub(crate) case: &'static str,
    /// Its size.
    pub(crate) n: usize,
    /// All of them.
    pub(crate) contenders: Vec<Contender>,
}

/// How long a comparison may take.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Spent on each contender before anything is timed.
    pub(crate) warm_up: Duration,
    /// Spent on all timed rounds together.
    pub(crate) timed: Duration,
    /// The rounds that a slow contender takes part in.
    pub(crate) slow_rounds: usize,
}

impl Comparison {
    /// Compares the answers, warms up, times all contenders by turns, and compares again: what a contender has tuned since
    /// may be wrong.
    pub(crate) fn run(mut self, device: &str, pace: Pace, report: &mut Report) -> Outcome<()> {
        self.check()?;
        for contender in &mut self.contenders {
            // A contender that tunes itself did so in its first run, the one that was checked.
            let start = Instant::now();
            while start.elapsed() < pace.warm_up {
                contender.runner.run(false)?;
            }
        }
        let mut slow = vec![false; self.contenders.len()];
        let rounds = Rounds { min: 7, max: 400, budget: pace.timed };
        let samples = rounds.run(self.contenders.len(), |at, round| {
            if slow[at] && round >= pace.slow_rounds {
                return Ok([f64::NAN]);
            }
            let (time, _) = self.contenders[at].runner.run(false)?;
            slow[at] |= round == 0 && time > MAX_US;
            Ok([time])
        })?;
        self.check()?;
        let names: Vec<&str> = self.contenders.iter().map(|contender| contender.name).collect();
        let case = Case { device, case: self.case, n: self.n, metrics: ["us_per_run"] };
        report.rows(&case, &Name::all(&names), &samples);
        Ok(())
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
}
