//! A part of the campaign: one way to attack the library.

use std::time::{Duration, Instant};

use crate::{campaign::Outcome, parts, report::Report};

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

/// All parts, in the order in which a campaign runs them.
pub const ALL: &[Part] = &[
    parts::loss::PART,
    parts::loss_baseline::PART,
    parts::waiting::PART,
    parts::growth::PART,
    parts::overload::PART,
    parts::exits::PART,
    parts::memory_limit::PART,
    parts::kernels::PART,
    parts::programs::PART,
    parts::files::PART,
    parts::self_check::PART,
];

/// The part of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Part> {
    ALL.iter().find(|part| part.name == name)
}
