//! Contenders take turns; their results are checked.

use std::time::Duration;

pub(crate) use crate::dispatches::Runner;
pub(crate) use sortie_bench::Outcome;
use sortie_bench::{Case as Measured, Contender as Name, Report, Rounds};

use crate::case::Case;
use crate::meter::{METRICS, Sample, measure};
use crate::threads::ThreadList;

/// A runner with a name.
struct Contender {
    name: &'static str,
    runner: Box<dyn Runner>,
    /// Threads of its own, without the calling one and those of the driver.
    threads: Vec<i32>,
}

/// All contenders; the first is the baseline.
pub(crate) struct Comparison<'a> {
    case: Case,
    n: usize,
    threads: &'a mut ThreadList,
    contenders: Vec<Contender>,
}

/// What one contender takes, for the plot.
pub(crate) struct Row {
    /// What was run.
    pub(crate) case: Case,
    /// The number of ops in a run.
    pub(crate) n: usize,
    /// The contender's name.
    pub(crate) contender: &'static str,
    /// Per op, for each of [`METRICS`].
    pub(crate) values: Sample,
}

impl<'a> Comparison<'a> {
    /// Runs of `n` ops, without contenders yet.
    pub(crate) fn new(case: Case, n: usize, threads: &'a mut ThreadList) -> Self {
        Self { case, n, threads, contenders: Vec::new() }
    }

    /// Adds a contender. Threads started since the one before are its own: contenders must be made one by one.
    pub(crate) fn add(&mut self, name: &'static str, runner: impl Runner + 'static) -> Outcome<()> {
        let threads = self.threads.started()?;
        self.contenders.push(Contender { name, runner: Box::new(runner), threads });
        Ok(())
    }

    /// Warms all contenders up, measures them by turns, checks their results and reports them.
    pub(crate) fn run(mut self, device: &str, budget: Duration, report: &mut Report) -> Outcome<Vec<Row>> {
        let n = self.n;
        for contender in &mut self.contenders {
            // Twice: the first run compiles and plans, the second finds caches filled.
            for _ in 0..2 {
                measure(self.threads, &mut contender.threads, || contender.runner.run(n))?;
            }
        }
        let samples = Rounds::within(budget, 3).run(self.contenders.len(), |at, _| {
            let Contender { runner, threads, .. } = &mut self.contenders[at];
            Ok(measure(self.threads, threads, || runner.run(n))?.map(|total| total / n as f64))
        })?;
        self.check(2 + samples.count(0))?;
        let names: Vec<&'static str> = self.contenders.iter().map(|contender| contender.name).collect();
        let measured = Measured { device, case: self.case.name(), n, metrics: METRICS };
        report.rows(&measured, &Name::all(&names), &samples);
        let row = |(at, contender)| {
            let values = std::array::from_fn(|metric| samples.value(at, 0, metric));
            Row { case: self.case, n, contender, values }
        };
        Ok(names.into_iter().enumerate().map(row).collect())
    }

    fn check(&mut self, runs: usize) -> Outcome<()> {
        for Contender { name, runner, .. } in &mut self.contenders {
            let expected =
                if runner.begins_with_zeros() { self.case.last(self.n) } else { self.case.expected(self.n, runs) };
            let found = runner.answer()?;
            if found != expected {
                return Err(format!("{name} at {} {}: {found}, not {expected}", self.case.name(), self.n).into());
            }
        }
        Ok(())
    }
}
