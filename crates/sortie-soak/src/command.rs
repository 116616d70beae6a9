//! The command line.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its result, and how far it is")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{
    campaign::{self, Until},
    devices, panics,
    part::{Outcome, Part, Task},
    parts,
    report::Report,
    summary::Summary,
};

/// Attacks the library and reports what failed.
#[derive(Debug, Parser)]
#[command(name = "soak", subcommand_precedence_over_arg = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Action>,
    /// The parts to run; all of them if none is named.
    parts: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the parts.
    List,
    /// Runs one task in this process. The parent starts it.
    #[command(hide = true)]
    Child {
        part: String,
        #[command(flatten)]
        task: Task,
    },
}

#[derive(Clone, Debug, Args)]
struct Options {
    /// Device to run on; may be given more than once. All devices of the part if none is given.
    #[arg(long)]
    device: Vec<String>,
    /// Seconds for all parts on all devices together.
    #[arg(long, default_value_t = 600.0, conflicts_with = "quick")]
    seconds: f64,
    /// The short version that runs in `scripts/test`.
    #[arg(long)]
    quick: bool,
    /// The seed of the first process. Each further process has the next one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of processes per part and device, instead of a time.
    #[arg(long)]
    runs: Option<u64>,
    /// Operations of one process; what an operation is depends on the part.
    #[arg(long)]
    size: Option<u64>,
}

/// Runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Action::List) => {
            for part in parts::ALL {
                println!("{:14} {}", part.name, part.about);
            }
            ExitCode::SUCCESS
        }
        Some(Action::Child { part, task }) => child(&part, &task),
        None => parent(&cli.parts, &cli.options),
    }
}

fn child(name: &str, task: &Task) -> ExitCode {
    let Some(part) = parts::find(name) else { return unknown(name) };
    // A campaign that is interrupted leaves no child behind.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap_or_default();
    panics::watch();
    let mut report = Report::default();
    if let Err(error) = (part.run)(task, &mut report) {
        report.error(&error);
    }
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parent(names: &[String], options: &Options) -> ExitCode {
    let mut parts = Vec::new();
    for name in names {
        let Some(part) = parts::find(name) else { return unknown(name) };
        parts.push(part);
    }
    if parts.is_empty() {
        parts.extend(parts::ALL.iter().filter(|part| part.weight > 0));
    }
    let selected = |device: &&str| options.device.is_empty() || options.device.iter().any(|name| name == device);
    let on_devices = |part: &'static Part| part.devices.iter().copied().filter(selected).map(move |on| (part, on));
    let jobs: Vec<(&Part, &str)> = parts.into_iter().flat_map(on_devices).collect();
    let weights: u32 = jobs.iter().map(|(part, _)| part.weight.max(1)).sum();
    let mut outcomes = Vec::new();
    for (part, device) in jobs {
        if !devices::exists(device) {
            let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some() || !options.device.is_empty();
            let mut missing = Outcome { part: part.name, device: format!("{device} (missing)"), ..Outcome::default() };
            if required {
                missing.fail("there is no such device");
            }
            outcomes.push(missing);
            continue;
        }
        let size = options.size.unwrap_or(if options.quick { part.size.quick } else { part.size.full });
        let (seed, quick) = (options.seed, options.quick);
        let task = Task { device: device.into(), seed, size, quick, time: None, began: Instant::now() };
        let share = options.seconds * f64::from(part.weight.max(1)) / f64::from(weights.max(1));
        let until = match options.runs {
            Some(runs) => Until::Runs(runs.max(1)),
            None if options.quick => Until::Runs(part.quick_runs),
            None => Until::Elapsed(Duration::from_secs_f64(share.max(0.0))),
        };
        let begin = Instant::now();
        let outcome = campaign::run(part, &task, until);
        let (runs, failed, seconds) = (outcome.runs, outcome.failed, begin.elapsed().as_secs());
        eprintln!("{} on {}: {failed} of {runs} runs failed ({seconds} s)", part.name, task.device);
        outcomes.push(outcome);
    }
    let summary = Summary(&outcomes);
    println!("{summary}");
    if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unknown(name: &str) -> ExitCode {
    let names: Vec<_> = parts::ALL.iter().map(|part| part.name).collect();
    println!("there is no part {name:?}; there are {}", names.join(", "));
    ExitCode::FAILURE
}
