//! What a child process tells its parent: one event per line on standard output, flushed at once, so that a crash loses
//! nothing.

use std::{
    fmt::Display,
    io::{self, Write},
};

use rustix::time::{ClockId, clock_gettime};

/// A child's side of the events.
#[derive(Debug, Default)]
pub struct Report {
    operations: u64,
    faults: u64,
}

/// What a child tells.
#[derive(Clone, Debug, PartialEq)]
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

impl Report {
    /// Names what comes next.
    pub fn at(&self, what: impl Display) {
        send(&Event::Operations(self.operations));
        send(&Event::At(what.to_string()));
    }

    /// Counts operations.
    pub fn count(&mut self, operations: u64) {
        self.operations += operations;
    }

    /// Reports something that must not happen.
    pub fn fault(&mut self, what: impl Display) {
        self.faults += 1;
        if self.faults <= MAX_FAULTS {
            send(&Event::Fault(what.to_string()));
        }
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

    /// Tells the reader something that is no failure.
    pub fn note(&self, what: impl Display) {
        send(&Event::Note(what.to_string()));
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Number of faults so far.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Tells that this process is about to exit. The parent measures how long that takes.
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
#[must_use]
pub fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn send(event: &Event) {
    // The parent may be gone.
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{}", event.line()).and_then(|()| out.flush()));
}

impl Event {
    fn line(&self) -> String {
        match self {
            Self::At(what) => format!("at {}", one_line(what)),
            Self::Operations(count) => format!("operations {count}"),
            Self::Fault(what) => format!("fault {}", one_line(what)),
            Self::Figure(name, value) => format!("figure {value} {name}"),
            Self::Note(what) => format!("note {}", one_line(what)),
            Self::Exiting(time) => format!("exiting {time}"),
        }
    }

    /// Reads a line; `None` when it is none of ours.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "at" => Some(Self::At(rest.into())),
            "operations" => rest.parse().ok().map(Self::Operations),
            "fault" => Some(Self::Fault(rest.into())),
            "figure" => {
                let (value, name) = rest.split_once(' ')?;
                Some(Self::Figure(name.into(), value.parse().ok()?))
            }
            "note" => Some(Self::Note(rest.into())),
            "exiting" => rest.parse().ok().map(Self::Exiting),
            _ => None,
        }
    }
}

fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 2000;
    let line: String = text.chars().take(MAX_CHARS).collect();
    line.replace(['\n', '\r'], " ⏎ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_pipe() {
        let events = [
            Event::At("loss 3".into()),
            Event::Operations(7),
            Event::Fault("a b".into()),
            Event::Figure("growth MB".into(), -1.5),
            Event::Note("c".into()),
            Event::Exiting(9),
        ];
        for event in events {
            assert_eq!(Event::parse(&event.line()), Some(event));
        }
        assert_eq!(Event::parse("something else"), None);
    }
}
