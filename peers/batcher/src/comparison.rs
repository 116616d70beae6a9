//! Contenders take turns; each turn is a time in which their callers are active.

use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) use sortie_bench::Outcome;
use sortie_bench::{Case as Measured, Contender, CountingAllocator, Report, Rounds, allocations};

use crate::callers::Callers;
use crate::device::Case;
use crate::histogram::Snapshot;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const METRICS: [&str; 4] = ["requests_per_s", "share_of_ideal", "p99_us", "allocs_per_request"];

/// The number and the length of turns.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// Rounds, in each of which every contender has one turn.
    pub(crate) rounds: usize,
    /// The beginning of a turn, which is not measured: batches settle, and lists grow.
    pub(crate) warm_up: Duration,
    /// The rest of it.
    pub(crate) measured: Duration,
}

/// All contenders; the first is the baseline.
pub(crate) struct Comparison {
    case: Case,
    /// Callers.
    n: usize,
    /// Rows in a batch, at most.
    limit: usize,
    contenders: Vec<(&'static str, Callers)>,
    before: Snapshot,
    after: Snapshot,
}

impl Comparison {
    /// A comparison with `n` callers and at most `limit` rows in a batch, without contenders yet.
    pub(crate) fn new(case: Case, n: usize, limit: usize) -> Self {
        Self { case, n, limit, contenders: Vec::new(), before: Snapshot::new(), after: Snapshot::new() }
    }

    /// Adds a contender.
    pub(crate) fn add(&mut self, name: &'static str, callers: Callers) {
        self.contenders.push((name, callers));
    }

    /// Warms all contenders up, measures them by turns and reports them.
    pub(crate) fn run(mut self, turns: Turns, report: &mut Report) -> Outcome<()> {
        for at in 0..self.contenders.len() {
            self.turn(at, Turns { warm_up: Duration::ZERO, ..turns })?;
        }
        let samples = Rounds::new(turns.rounds).run(self.contenders.len(), |at, _| self.turn(at, turns))?;
        let names: Vec<&str> = self.contenders.iter().map(|(name, _)| *name).collect();
        let measured = Measured { device: "simulated", case: self.case.name(), n: self.n, metrics: METRICS };
        report.rows(&measured, &Contender::all(&names), &samples);
        Ok(())
    }

    fn turn(&mut self, at: usize, turns: Turns) -> Outcome<[f64; METRICS.len()]> {
        let (name, callers) = &self.contenders[at];
        callers.start();
        sleep(turns.warm_up);
        callers.times().read(&mut self.before);
        let (begin, allocs) = (Instant::now(), allocations());
        sleep(turns.measured);
        let (time, allocs) = (begin.elapsed(), allocations() - allocs);
        callers.times().read(&mut self.after);
        callers.stop().map_err(|error| format!("{name}, {} callers of {}: {error}", self.n, self.case.name()))?;
        let requests = self.after.requests(&self.before) as f64;
        let rate = requests / time.as_secs_f64();
        let ideal = self.case.ideal(self.n.min(self.limit));
        // Without an answer, a request took longer than the turn.
        let p99 = if requests > 0.0 { self.after.quantile(&self.before, 0.99) } else { time.as_nanos() as f64 } / 1e3;
        Ok([rate, ideal.map_or(f64::NAN, |ideal| rate / ideal), p99, allocs as f64 / requests.max(1.0)])
    }
}
