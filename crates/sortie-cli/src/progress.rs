//! Progress of a long run on stderr.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(2);

/// A bar on a terminal, elsewhere a line every two seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Instant,
    /// Hidden if stderr is not a terminal.
    bar: ProgressBar,
}

impl Progress {
    /// Lines only.
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), bar: ProgressBar::hidden() }
    }

    /// A bar of `stages`, if stderr is a terminal.
    pub(crate) fn of(stages: usize) -> Self {
        Self { last: Instant::now(), bar: bar(stages as u64, "{spinner} {bar:24} {elapsed:>4}  {wide_msg}") }
    }

    /// Shows `what`, which is computed only if it is shown.
    pub(crate) fn tick(&mut self, what: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what());
        } else if self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            // The run goes on if stderr is closed.
            drop(writeln!(io::stderr(), "{}", what()));
        }
    }

    /// Marks one stage as done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Hides the bar while `print` runs.
    pub(crate) fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar of `len` steps, on a terminal only.
pub(crate) fn bar(len: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(len).with_style(style)
}
