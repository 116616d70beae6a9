//! A piece of work that can be done with several strategies, and how each of them did.

use std::{error::Error, fmt, time::Duration};

use crate::{
    measurement::Measurement,
    progress::Progress,
    rounds::{Quartiles, RoundBudget, quartiles, rounds},
};

/// With fewer rounds, a ratio is not shown as a headline.
pub(super) const MIN_HEADLINE_ROUNDS: usize = 5;

/// How a piece of work is given to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Each,
    Batched,
    Fused,
    Replayed,
    Batcher,
    ByHand,
}

impl Strategy {
    /// Its name in data and style sheets, and its name for readers.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Each => ("each", "one submission each"),
            Self::Batched => ("batched", "batched"),
            Self::Fused => ("fused", "batched and fused"),
            Self::Replayed => ("replayed", "fused and replayed"),
            Self::Batcher => ("batcher", "through a Batcher"),
            Self::ByHand => ("by-hand", "batched by hand"),
        }
    }

    pub(super) fn key(self) -> &'static str {
        self.names().0
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.names().1)
    }
}

/// A run whose answers have been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) measurement: Measurement,
    /// Units done: fewer than all if all would take too long.
    pub(super) count: usize,
    pub(super) latency: Option<Latency>,
}

impl Trial {
    pub(super) fn micros_per_unit(&self) -> f64 {
        self.measurement.micros() / self.count.max(1) as f64
    }
}

/// How long callers waited for answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// The mean share of a batcher's rows that were used.
    pub(super) fill: Option<f64>,
}

pub(super) type TrialResult = Result<Trial, Box<dyn Error>>;

/// Something to do.
pub(super) struct Work<'a> {
    pub(super) title: String,
    /// What is done, and how answers are checked.
    pub(super) about: String,
    /// What is counted: `op`, `request`.
    pub(super) unit: &'static str,
    pub(super) count: usize,
    /// The others are compared with the first.
    pub(super) strategies: &'static [Strategy],
    /// Does it once. A wrong answer is an error.
    pub(super) run: Box<dyn FnMut(Strategy) -> TrialResult + 'a>,
}

/// The results of one strategy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) strategy: Strategy,
    /// By time per unit.
    pub(super) trials: Quartiles<Trial>,
    /// Speed-up per unit over the first strategy.
    pub(super) ratio: f64,
}

impl Outcome {
    pub(super) fn micros_per_unit(&self) -> f64 {
        self.trials.median.micros_per_unit()
    }
}

/// The results of all strategies.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) unit: &'static str,
    pub(super) count: usize,
    pub(super) rounds: usize,
    pub(super) outcomes: Vec<Outcome>,
}

impl Finding {
    pub(super) fn of(mut work: Work<'_>, budget: RoundBudget, progress: &mut Progress) -> Result<Self, Box<dyn Error>> {
        let trials = rounds(work.strategies.len(), budget, |strategy, round| {
            let strategy = work.strategies[strategy];
            progress.tick(|| match round {
                0 => format!("{}: {strategy}, warming up", work.title),
                round => format!("{}: {strategy}, round {round}", work.title),
            });
            (work.run)(strategy).map_err(|error| format!("{}, {strategy}: {error}", work.title))
        })?;
        let rounds = trials.first().map_or(0, Vec::len);
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (strategy, trials) in work.strategies.iter().zip(trials) {
            let nanos_per_unit = |trial: &Trial| (trial.micros_per_unit() * 1e3) as u64;
            let Some(trials) = quartiles(trials, nanos_per_unit) else { continue };
            let own = trials.median.micros_per_unit();
            let ratio = outcomes.first().map_or(own, Outcome::micros_per_unit) / own;
            outcomes.push(Outcome { strategy: *strategy, trials, ratio });
        }
        let Work { title, about, unit, count, .. } = work;
        Ok(Self { title, about, unit, count, rounds, outcomes })
    }

    /// The fastest strategy that is open to every caller: batching by hand needs all requests at once.
    pub(super) fn best(&self) -> Option<&Outcome> {
        let open = self.outcomes.iter().filter(|outcome| outcome.strategy != Strategy::ByHand);
        open.max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }
}
