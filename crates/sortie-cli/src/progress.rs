//! A sign of life on stderr during a long run.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Runs shorter than this need no sign of life.
const EVERY: Duration = Duration::from_secs(2);

/// Says how far along a run is, once in a while.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// `what` is worked out only when it is time to say it.
    pub(crate) fn tick(&mut self, what: impl FnOnce() -> String) {
        if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            // Nobody to tell is no reason to stop.
            drop(writeln!(io::stderr(), "{}", what()));
        }
    }
}
