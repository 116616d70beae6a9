//! What a child process reports to its parent: one event per line of JSON on standard output, flushed at once, so that a
//! crash loses nothing.

use std::{
    fmt::Display,
    io::{self, Write},
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A child's side of the events.
#[derive(Debug, Default)]
pub struct Report {
    operations: u64,
    faults: u64,
    /// What comes next, for errors that end the part.
    at: String,
}

/// An event that a child reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// What it is about to do. The last one is shown if the child crashes.
    At(String),
    /// Operations done.
    Operations(u64),
    /// Something that must not happen.
    Fault(String),
    /// A measured figure. The largest of all children is shown.
    Figure(String, f64),
    /// A line for the reader, printed below the table.
    Note(String),
    /// It is about to exit, at this time of the monotonic clock in nanoseconds.
    Exiting(u64),
}

/// Faults that one child reports; more are only counted.
const MAX_FAULTS: u64 = 20;

/// Characters of a fault; the rest is left out.
const MAX_CHARS: usize = 2000;

impl Report {
    /// Names what comes next.
    pub fn at(&mut self, what: impl Display) {
        self.at = what.to_string();
        send(&Event::Operations(self.operations));
        send(&Event::At(self.at.clone()));
    }

    /// Counts operations.
    pub fn count(&mut self, operations: u64) {
        self.operations += operations;
    }

    /// Reports something that must not happen.
    pub fn fault(&mut self, what: impl Display) {
        self.faults += 1;
        if self.faults <= MAX_FAULTS {
            send(&Event::Fault(format!("{:.MAX_CHARS$}", what.to_string())));
        }
    }

    /// Reports an error that must not happen.
    pub fn error(&mut self, error: &sortie::Error) {
        self.fault(format!("{}: {error:?}", self.at));
    }

    /// Reports a fault unless `holds`.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fault(what());
        }
    }

    /// Reports a measured figure, with its unit in the name.
    pub fn figure(&self, name: &str, value: f64) {
        send(&Event::Figure(name.into(), value));
    }

    /// Reports a remark that is no failure.
    pub fn note(&self, what: impl Display) {
        send(&Event::Note(what.to_string()));
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Number of faults so far.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Reports that this process is about to exit. The parent measures how long that takes.
    pub fn exiting(&self) {
        send(&Event::Operations(self.operations + 1));
        send(&Event::Exiting(monotonic()));
    }

    /// Ends the report.
    pub fn finish(mut self) -> bool {
        let panics = crate::panics::count();
        self.check(panics == 0, || format!("{panics} panics"));
        if self.faults > MAX_FAULTS {
            send(&Event::Fault(format!("… {} faults more", self.faults - MAX_FAULTS)));
        }
        send(&Event::Operations(self.operations));
        self.faults == 0
    }
}

/// The monotonic clock in nanoseconds, the same in all processes.
pub fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn send(event: &Event) {
    // The parent may be gone.
    let mut out = io::stdout().lock();
    let line = serde_json::to_string(event).unwrap_or_default();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_pipe() {
        let events = [
            Event::At("loss 3".into()),
            Event::Operations(7),
            Event::Fault("a\nb".into()),
            Event::Figure("growth MB".into(), -1.5),
            Event::Note("c".into()),
            Event::Exiting(9),
        ];
        for event in events {
            let line = serde_json::to_string(&event).expect("an event");
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Event>(&line).ok(), Some(event));
        }
    }
}
