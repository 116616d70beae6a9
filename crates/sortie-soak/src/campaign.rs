//! Parts run on devices for a given time.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    child,
    part::{Outcome, Part, Task},
};

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Every case once, and no new process after this time. Processes get what is left of it.
    Elapsed(Duration),
    /// This many processes.
    Runs(u64),
}

/// Failures that are described; more are only counted.
const MAX_DESCRIBED: usize = 12;

/// Seconds that a process gets at least.
const MIN_SECONDS: f64 = 1.0;

/// Runs one part on one device. `task` is the first; the seed of each following one is one more.
pub fn run(part: &Part, task: &Task, until: Until) -> Outcome {
    let mut outcome = Outcome { part: part.name, device: task.device.clone(), ..Outcome::default() };
    let progress = progress(part, task, until);
    let begin = Instant::now();
    let mut task = task.clone();
    loop {
        if let Until::Elapsed(time) = until {
            let left = time.saturating_sub(begin.elapsed()).as_secs_f64();
            let cases = part.cases.saturating_sub(outcome.runs).max(1);
            task.time = Some((left / cases as f64).max(MIN_SECONDS));
        }
        let ended = child::run(part, &task);
        outcome.add(part, &task, ended);
        progress.inc(1);
        progress.set_message(format!("{} failed", outcome.failed));
        task.seed += 1;
        let over = match until {
            Until::Elapsed(time) => begin.elapsed() >= time && outcome.runs >= part.cases,
            Until::Runs(runs) => outcome.runs >= runs,
        };
        if over {
            break;
        }
    }
    progress.finish_and_clear();
    if let Some(conclude) = part.conclude {
        conclude(&task, &mut outcome);
    }
    outcome
}

impl Outcome {
    fn add(&mut self, part: &Part, task: &Task, ended: child::Ended) {
        self.runs += 1;
        self.operations += ended.operations;
        for (name, value) in ended.figures {
            let largest = self.figures.entry(name).or_insert(value);
            *largest = largest.max(value);
        }
        self.notes.extend(ended.notes);
        if ended.failures.is_empty() {
            return;
        }
        self.failed += 1;
        if self.failures.len() >= MAX_DESCRIBED {
            return;
        }
        let Task { device, seed, .. } = task;
        let (name, options, failures) = (part.name, task.options(), ended.failures.join("\n  "));
        let mut text = format!("{name} on {device}, seed {seed}: {failures}\n  repeat: soak {name} {options} --runs 1");
        let stderr = ended.stderr.trim();
        if !stderr.is_empty() {
            text.push_str("\n  standard error ends with:");
            for line in stderr.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev() {
                text.push_str("\n    | ");
                text.extend(line.chars().take(300));
            }
        }
        self.failures.push(text);
    }

    /// Adds a failure of all processes together.
    pub fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.failures.push(format!("{} on {}: {what}", self.part, self.device));
    }
}

fn progress(part: &Part, task: &Task, until: Until) -> ProgressBar {
    let bar = match until {
        Until::Runs(runs) => ProgressBar::new(runs),
        Until::Elapsed(_) => ProgressBar::no_length(),
    };
    let style = ProgressStyle::with_template("{prefix} {pos} runs, {msg} ({elapsed})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(format!("{} on {}:", part.name, task.device));
    bar
}
