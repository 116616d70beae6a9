//! Turns, samples and ratios.

use std::time::{Duration, Instant};

use crate::case::Case;
use crate::meter::{METRICS, Sample, measure};
use crate::threads::Census;

/// There are no fewer rounds than this.
const FEWEST: usize = 3;
/// There are no more rounds than this.
const MOST: usize = 2_000;

/// What can go wrong here is only told to a reader.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One way to run the ops on one device.
pub(crate) trait Runner {
    /// Records and runs `n` ops, until they are done. `n` is the same in every run.
    fn run(&mut self, n: usize) -> Outcome<()>;
    /// The first element of the buffer the case names.
    fn answer(&mut self) -> Outcome<u32>;
    /// Whether every run begins with zeros, and the answer is what the last op wrote.
    fn begins_anew(&self) -> bool {
        false
    }
}

/// A runner with a name.
struct Contender {
    name: &'static str,
    runner: Box<dyn Runner>,
    /// Its own, beside the calling one and without the driver's.
    threads: Vec<i32>,
}

/// Who takes part; the first is the baseline.
pub(crate) struct Contest<'a> {
    case: Case,
    n: usize,
    census: &'a mut Census,
    contenders: Vec<Contender>,
}

/// A line of the table.
pub(crate) struct Row {
    /// What was run.
    pub(crate) case: Case,
    /// How many ops a run had.
    pub(crate) n: usize,
    /// The contender's name.
    pub(crate) contender: &'static str,
    /// The baseline's name.
    pub(crate) baseline: &'static str,
    /// Per op, for each of [`METRICS`].
    pub(crate) values: Sample,
    /// Of values to the baseline's.
    pub(crate) ratios: Sample,
}

impl<'a> Contest<'a> {
    /// Runs of `n` ops, in which nobody takes part yet.
    pub(crate) fn new(case: Case, n: usize, census: &'a mut Census) -> Self {
        Self { case, n, census, contenders: Vec::new() }
    }

    /// Takes one more in. Threads that have begun since the one before are its own: contenders are to be made one by one.
    pub(crate) fn enter(&mut self, name: &'static str, runner: impl Runner + 'static) -> Outcome<()> {
        let threads = self.census.newcomers()?;
        self.contenders.push(Contender { name, runner: Box::new(runner), threads });
        Ok(())
    }

    /// Warms everyone up, measures all by turns until the time is up, and checks what was computed.
    pub(crate) fn hold(mut self, budget: Duration) -> Outcome<Vec<Row>> {
        for contender in &mut self.contenders {
            // Twice: the first run compiles and plans, the second finds caches filled.
            for _ in 0..2 {
                measure(self.census, &mut contender.threads, || contender.runner.run(self.n))?;
            }
        }
        let rounds = self.rounds(budget)?;
        self.check(2 + rounds.len())?;
        Ok(self.rows(&rounds))
    }

    /// Samples by round and contender. Every round has an order of its own: what a contender finds in the caches depends on whom it follows.
    fn rounds(&mut self, budget: Duration) -> Outcome<Vec<Vec<Sample>>> {
        let count = self.contenders.len();
        let mut rounds: Vec<Vec<Sample>> = Vec::new();
        let mut order: Vec<usize> = (0..count).collect();
        let mut dice = Dice(1);
        let begin = Instant::now();
        while rounds.len() < FEWEST || begin.elapsed() < budget && rounds.len() < MOST {
            dice.shuffle(&mut order);
            let mut round = vec![[0.0; METRICS.len()]; count];
            for &at in &order {
                let Contender { runner, threads, .. } = &mut self.contenders[at];
                round[at] = measure(self.census, threads, || runner.run(self.n))?;
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn check(&mut self, runs: usize) -> Outcome<()> {
        for Contender { name, runner, .. } in &mut self.contenders {
            let expected = if runner.begins_anew() { self.case.last(self.n) } else { self.case.expected(self.n, runs) };
            let found = runner.answer()?;
            if found != expected {
                return Err(format!("{name} at {} {}: {found}, not {expected}", self.case.name(), self.n).into());
            }
        }
        Ok(())
    }

    /// A value is the median of the baseline times the median ratio to it within a round: load that comes and goes slows a whole round.
    fn rows(&self, rounds: &[Vec<Sample>]) -> Vec<Row> {
        let base: Sample = std::array::from_fn(|m| median(rounds.iter().map(|round| round[0][m])) / self.n as f64);
        let row = |(at, contender): (usize, &Contender)| {
            let ratio = |m: usize| median(rounds.iter().map(|round| round[at][m] / round[0][m].max(f64::MIN_POSITIVE)));
            let ratios: Sample = std::array::from_fn(ratio);
            Row {
                case: self.case,
                n: self.n,
                contender: contender.name,
                baseline: self.contenders[0].name,
                values: std::array::from_fn(|m| base[m] * ratios[m]),
                ratios,
            }
        };
        self.contenders.iter().enumerate().map(row).collect()
    }
}

impl Row {
    /// What stands above the rows.
    pub(crate) fn heading() -> String {
        format!(
            "{:<11} {:>6}  {:<20} {:>12} {:>8} {:>12} {:>12} {:>8} {:>10}",
            "case", "n", "contender", "cpu µs/op", "ratio", "caller µs/op", "total µs/op", "ratio", "allocs/op"
        )
    }

    /// The row for a reader.
    pub(crate) fn text(&self) -> String {
        let Self { case, n, contender, values, ratios, .. } = self;
        let ([cpu, caller, wall, allocs], [cpu_ratio, _, wall_ratio, _]) = (values, ratios);
        format!(
            "{:<11} {n:>6}  {contender:<20} {cpu:>12.3} {cpu_ratio:>7.2}x {caller:>12.3} {wall:>12.3} {wall_ratio:>7.2}x {allocs:>10.3}",
            case.name()
        )
    }

    /// The row for a program: one line for each metric.
    pub(crate) fn json(&self, device: &str) -> Vec<String> {
        let Self { case, n, contender, baseline, .. } = self;
        let line = |((metric, value), ratio): ((&str, f64), f64)| {
            format!(
                "{{\"bench\":\"peers-overhead\",\"device\":\"{device}\",\"case\":\"{}\",\"n\":{n},\"contender\":\"{contender}\",\"metric\":\"{metric}\",\"value\":{value:.4},\"baseline\":\"{baseline}\",\"ratio\":{ratio:.4}}}",
                case.name()
            )
        };
        METRICS.into_iter().zip(self.values).zip(self.ratios).map(line).collect()
    }
}

/// The same numbers in every process, in no order that matters (xorshift).
struct Dice(u64);

impl Dice {
    fn shuffle(&mut self, order: &mut [usize]) {
        for end in (1..order.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            order.swap(end, (self.0 % (end as u64 + 1)) as usize);
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
