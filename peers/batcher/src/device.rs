//! The simulated device of all contenders: a queue that takes a fixed time for a run and some more for each row, and
//! computes almost nothing.
//!
//! A run begins when it is submitted or when the one before it ends, whichever is later, as on the queue of a GPU: no
//! thread has to be woken in between. A thread that waits for a run sleeps, because a GPU does not keep a core busy, and
//! spins only at the end, because sleeps end late.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What every input is combined with.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of sleeps that are measured.
const SLEEPS: usize = 60;
/// Where sleeps end later than this, runs do too.
const MAX_SPIN: Duration = Duration::from_micros(150);

/// The answer to an input.
pub(crate) fn answer(input: u64) -> u64 {
    input ^ KEY
}

/// How long a run takes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Case {
    /// No time.
    Noop,
    /// 200 µs, and 1 µs for each row.
    Micros200,
}

impl Case {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Noop, Self::Micros200];

    /// What the table calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Micros200 => "200us",
        }
    }

    /// The time of a run of `rows` rows.
    pub(crate) fn time(self, rows: usize) -> Option<Duration> {
        match self {
            Self::Noop => None,
            Self::Micros200 => Some(Duration::from_micros(200 + rows as u64)),
        }
    }

    /// Rows per second of a device that is never idle, in runs of `rows` rows.
    pub(crate) fn ideal(self, rows: usize) -> Option<f64> {
        self.time(rows).map(|time| rows as f64 / time.as_secs_f64())
    }
}

/// A queue of runs.
pub(crate) struct Device {
    case: Case,
    /// How long before its end a run is waited for without sleep.
    spin: Duration,
    /// When all that was asked for is over.
    free: Mutex<Instant>,
}

/// A run under way.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    end: Option<Instant>,
    spin: Duration,
}

impl Device {
    /// A device whose waits spin for the last `spin` of a run.
    pub(crate) fn new(case: Case, spin: Duration) -> Self {
        Self { case, spin, free: Mutex::new(Instant::now()) }
    }

    /// Turns inputs into answers, and comes back when the device has done so.
    pub(crate) fn run(&self, rows: &mut [u64]) {
        let run = self.begin(rows.len());
        rows.iter_mut().for_each(|row| *row = answer(*row));
        run.wait();
    }

    /// Puts a run into the queue.
    pub(crate) fn begin(&self, rows: usize) -> Run {
        let end = self.case.time(rows).map(|time| {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(Instant::now()) + time;
            *free
        });
        Run { end, spin: self.spin }
    }
}

impl Run {
    /// Until it is over.
    pub(crate) fn wait(self) {
        let Some(end) = self.end else { return };
        let left = end.saturating_duration_since(Instant::now());
        if left > self.spin {
            sleep(left - self.spin);
        }
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// Asks the system for exact timers, and returns the 90th percentile of how late sleeps still end.
pub(crate) fn lateness() -> Duration {
    // Linux rounds sleeps up by 50 µs unless told otherwise; threads inherit it. Where there is no such file, the device spins for longer.
    drop(std::fs::write("/proc/self/timerslack_ns", "1"));
    let asked = Duration::from_micros(300);
    let late = |_| {
        let begin = Instant::now();
        sleep(asked);
        begin.elapsed().saturating_sub(asked)
    };
    let mut late: Vec<Duration> = (0..SLEEPS).map(late).collect();
    late.sort_unstable();
    late[SLEEPS * 9 / 10].min(MAX_SPIN)
}
