//! A sign of life on stderr during a long run.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// Runs shorter than this need no sign of life.
const EVERY: Duration = Duration::from_secs(2);

/// Says how far along a run is: a bar on a terminal, elsewhere a line once in a while.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Lines only.
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), bar: None }
    }

    /// A bar of so many stages, where there is a terminal for it.
    pub(crate) fn of(stages: usize) -> Self {
        let style = ProgressStyle::with_template("{spinner} {bar:24} {elapsed:>4}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(stages as u64).with_style(style);
        Self { last: Instant::now(), bar: (!bar.is_hidden()).then_some(bar) }
    }

    /// `what` is worked out only when it is time to say it.
    pub(crate) fn tick(&mut self, what: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            // It draws itself no more often than can be seen.
            bar.set_message(what());
        } else if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            // Nobody to tell is no reason to stop.
            drop(writeln!(io::stderr(), "{}", what()));
        }
    }

    /// One stage more is done.
    pub(crate) fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Runs `print` with the bar out of the way.
    pub(crate) fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
