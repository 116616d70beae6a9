//! A part of the campaign: one way to attack the library.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::report::Report;

/// One attack.
#[derive(Debug)]
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it covers, in one line.
    pub about: &'static str,
    /// The devices that it runs on.
    pub devices: &'static [&'static str],
    /// How much of a campaign's time it gets, relative to the others.
    pub weight: u32,
    /// Operations of one process; what an operation is depends on the part.
    pub size: Size,
    /// Processes that it takes to see every case once: which case it is depends on the seed.
    pub cases: u64,
    /// Processes of a quick run.
    pub quick_runs: u64,
    /// A process that takes longer than this hangs.
    pub patience: Duration,
    /// What a child process does.
    pub run: fn(&Task, &mut Report),
    /// What the parent adds when all processes of a device have ended.
    pub conclude: Option<fn(&Task, &mut Outcome)>,
}

/// Operations of one process.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// In `scripts/test`.
    pub quick: u64,
    /// In a campaign.
    pub full: u64,
}

/// What one child process is asked to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The device's name.
    pub device: String,
    /// Decides everything that is random.
    pub seed: u64,
    /// Operations.
    pub size: u64,
    /// Short, for `scripts/test`.
    pub quick: bool,
    /// Seconds after which it ends with fewer operations.
    pub time: Option<f64>,
    /// When this process began.
    pub began: Instant,
}

impl Task {
    /// The random numbers of this task.
    #[must_use]
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Whether its time is up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.time.is_some_and(|time| self.began.elapsed().as_secs_f64() > time)
    }
}

/// What came of one part on one device.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The part.
    pub part: &'static str,
    /// The device.
    pub device: String,
    /// Processes.
    pub runs: u64,
    /// Operations of all of them.
    pub operations: u64,
    /// Processes that failed.
    pub failed: u64,
    /// What failed, and how to repeat it. The first few only.
    pub failures: Vec<String>,
    /// Lines for the reader.
    pub notes: Vec<String>,
    /// The largest value of each figure.
    pub figures: BTreeMap<String, f64>,
}
