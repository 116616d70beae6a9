//! A part of the campaign: one way to attack the library.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{devices, report::Report};

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
    /// What a child process does. An error is a failure.
    pub run: fn(&Task, &mut Report) -> sortie::Result<()>,
    /// What the parent adds when all processes of a device have ended.
    pub conclude: Option<fn(&Task, &mut Outcome)>,
}

impl Part {
    /// A part on all devices, with one case and one operation per process. Parts replace what differs.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&Task, &mut Report) -> sortie::Result<()>,
    ) -> Self {
        Self {
            name,
            about,
            devices: devices::ALL,
            weight: 1,
            size: Size { quick: 1, full: 1 },
            cases: 1,
            quick_runs: 1,
            patience: Duration::from_secs(600),
            run,
            conclude: None,
        }
    }
}

/// Operations of one process.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// In `scripts/test`.
    pub quick: u64,
    /// In a campaign.
    pub full: u64,
}

/// What one child process is asked to do: its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Task {
    /// The device's name.
    #[arg(long)]
    pub device: String,
    /// Decides everything that is random.
    #[arg(long)]
    pub seed: u64,
    /// Operations.
    #[arg(long)]
    pub size: u64,
    /// Short, for `scripts/test`.
    #[arg(long)]
    pub quick: bool,
    /// Seconds after which it ends with fewer operations.
    #[arg(long)]
    pub time: Option<f64>,
    /// When this process began.
    #[arg(skip = Instant::now())]
    pub began: Instant,
}

impl Task {
    /// The options that repeat it, however long it takes.
    pub fn options(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("--device {} --seed {} --size {}{quick}", self.device, self.seed, self.size)
    }

    /// The random numbers of this task.
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// The numbers of its operations, until its time is up.
    pub fn operations(&self) -> impl Iterator<Item = u64> {
        (0..self.size).take_while(|_| !self.is_over())
    }

    /// Whether its time is up.
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
