//! A piece of work that can be done in several ways, and how each of them fared.

use std::{error::Error, fmt, time::Duration};

use crate::{
    contest::{Pace, contest, median},
    lap::Lap,
    progress::Progress,
};

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
    /// One word, for data.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Batched => "batched",
            Self::Fused => "fused",
            Self::Replayed => "replayed",
            Self::Batcher => "batcher",
            Self::ByHand => "by-hand",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Each => "one submission each",
            Self::Batched => "batched",
            Self::Fused => "batched and fused",
            Self::Replayed => "fused and replayed",
            Self::Batcher => "through a Batcher",
            Self::ByHand => "batched by hand",
        })
    }
}

/// A run whose answers have been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) lap: Lap,
    /// How much was done: less than all where all would take too long.
    pub(super) count: usize,
    pub(super) service: Option<Service>,
}

/// How callers were served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    /// Half of the answers came within this.
    pub(super) p50: Duration,
    /// Ninety-nine of a hundred did.
    pub(super) p99: Duration,
    /// Rows of a batch, of those that it may have; for a batcher.
    pub(super) fill: Option<f64>,
}

/// Something to do. The first of its ways is the one that the others are compared with.
pub(super) trait Work {
    /// In a few words.
    fn title(&self) -> String;

    /// What is done, and how answers are checked.
    fn about(&self) -> String;

    /// What is counted: `op`, `request`.
    fn unit(&self) -> &'static str;

    /// How many of them there are.
    fn count(&self) -> usize;

    fn ways(&self) -> &'static [Strategy];

    /// Does it once. A wrong answer is an error.
    fn run(&mut self, way: Strategy) -> Result<Trial, Box<dyn Error>>;
}

/// How a way fared: its median run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) way: Strategy,
    pub(super) trial: Trial,
    /// How many times less time one unit takes than with a submission each.
    pub(super) ratio: f64,
}

impl Outcome {
    pub(super) fn micros_per_unit(&self) -> f64 {
        self.trial.micros_per_unit()
    }
}

impl Trial {
    pub(super) fn micros_per_unit(&self) -> f64 {
        self.lap.time.as_secs_f64() * 1e6 / self.count.max(1) as f64
    }
}

/// How all ways of a piece of work fared.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) unit: &'static str,
    pub(super) count: usize,
    /// Of which the median was taken.
    pub(super) rounds: usize,
    pub(super) outcomes: Vec<Outcome>,
}

impl Finding {
    pub(super) fn of(work: &mut dyn Work, pace: Pace, progress: &mut Progress) -> Result<Self, Box<dyn Error>> {
        let (title, ways) = (work.title(), work.ways());
        let trials = contest(ways.len(), pace, |way, round| {
            let way = ways[way];
            progress.tick(|| match round {
                0 => format!("{title}: {way}, warming up"),
                round => format!("{title}: {way}, round {round}"),
            });
            work.run(way)
        })?;
        let rounds = trials.first().map_or(0, Vec::len);
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (way, mut trials) in ways.iter().zip(trials) {
            // By unit, because not every run need be of as many.
            let by = |trial: &Trial| trial.lap.time / trial.count.max(1) as u32;
            let Some(trial) = median(&mut trials, by).copied() else { continue };
            let first = outcomes.first().map_or(trial.micros_per_unit(), Outcome::micros_per_unit);
            outcomes.push(Outcome { way: *way, trial, ratio: first / trial.micros_per_unit() });
        }
        let (unit, count) = (work.unit(), work.count());
        Ok(Self { title, about: work.about(), unit, count, rounds, outcomes })
    }

    /// The way that gains most of those that anybody can go: who has all requests at hand has no need of a batcher.
    pub(super) fn best(&self) -> Option<&Outcome> {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.way != Strategy::ByHand)
            .max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }
}
