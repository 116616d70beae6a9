//! Turns, samples and medians.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::device::Case;
use crate::lane::Lane;
use crate::ledger::Page;
use crate::meter::allocations;
use crate::row::{Row, Sample};

/// What can go wrong here is only told to a reader.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How long and how often everyone has a turn.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// Rounds, in each of which everyone has one.
    pub(crate) rounds: usize,
    /// The beginning of a turn, which is not measured: batches fall into step in it, and lists grow.
    pub(crate) warm: Duration,
    /// The rest of it.
    pub(crate) measured: Duration,
}

/// Who takes part; the first is the baseline.
pub(crate) struct Contest {
    case: Case,
    n: usize,
    limit: usize,
    lanes: Vec<(&'static str, Lane)>,
    before: Page,
    after: Page,
}

impl Contest {
    /// So many callers, and so many rows in a batch at most.
    pub(crate) fn new(case: Case, n: usize, limit: usize) -> Self {
        Self { case, n, limit, lanes: Vec::new(), before: Page::new(), after: Page::new() }
    }

    /// Takes one more in.
    pub(crate) fn enter(&mut self, name: &'static str, lane: Lane) {
        self.lanes.push((name, lane));
    }

    /// Warms everyone up and measures all by turns. Every round begins with another: who goes after whom must not matter.
    pub(crate) fn hold(mut self, turns: Turns) -> Outcome<Vec<Row>> {
        let count = self.lanes.len();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::with_capacity(turns.rounds); count];
        for at in 0..count {
            self.turn(at, Turns { warm: Duration::ZERO, ..turns })?;
        }
        for round in 0..turns.rounds {
            for at in (0..count).map(|at| (at + round) % count) {
                samples[at].push(self.turn(at, turns)?);
            }
        }
        Ok(self.rows(&samples))
    }

    fn turn(&mut self, at: usize, turns: Turns) -> Outcome<Sample> {
        let (name, lane) = &self.lanes[at];
        lane.open();
        sleep(turns.warm);
        lane.ledger().read(&mut self.before);
        let (begin, allocs) = (Instant::now(), allocations());
        sleep(turns.measured);
        let (time, allocs) = (begin.elapsed(), allocations() - allocs);
        lane.ledger().read(&mut self.after);
        lane.close().map_err(|error| format!("{name}, {} callers of {}: {error}", self.n, self.case.name()))?;
        let requests = self.after.requests(&self.before) as f64;
        let rate = requests / time.as_secs_f64();
        let ideal = self.case.ideal(self.n.min(self.limit));
        // Where there was no answer, a request took longer than the turn.
        let p99 = if requests > 0.0 { self.after.quantile(&self.before, 0.99) } else { time.as_nanos() as f64 } / 1e3;
        Ok([rate, ideal.map_or(f64::NAN, |ideal| rate / ideal), p99, allocs as f64 / requests.max(1.0)])
    }

    fn rows(&self, samples: &[Vec<Sample>]) -> Vec<Row> {
        let row = |((name, _), own): (&(&'static str, Lane), &Vec<Sample>)| Row {
            case: self.case,
            n: self.n,
            contender: name,
            baseline: self.lanes[0].0,
            values: std::array::from_fn(|m| median(own.iter().map(|sample| sample[m]))),
            ratios: std::array::from_fn(|m| median(own.iter().zip(&samples[0]).map(|(own, base)| own[m] / base[m]))),
        };
        self.lanes.iter().zip(samples).map(row).collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
