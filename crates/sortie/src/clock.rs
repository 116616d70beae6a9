//! Time. The only place in this crate that reads a clock.
//!
//! An [`Instant`] is a point in time. All modules import it from here, so that a platform whose standard library has no
//! clock only needs another type here.
//!
//! A [`Moment`] is a point in time with the CPU time that this process has used until then. The threads of a software
//! driver belong to this process. On a busy machine they wait for a processor, and a submission seems to take two to
//! five times as long, although its CPU time is the same. So the process's CPU time is an upper bound on the device
//! time of a submission to a software driver.

use std::time::{self, Duration};

/// A monotonic point in time.
pub(crate) type Instant = time::Instant;

/// The clock that measures a device's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Wall time.
    Wall,
    /// Wall time, or CPU time of this process if that is less.
    Process,
}

/// A point in time, with the CPU time of this process until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// CPU time of this process; `None` if it does not matter or is unknown.
    computed: Option<Duration>,
}

impl Clock {
    /// On [`Clock::Process`] this is a system call.
    pub(crate) fn now(self) -> Moment {
        self.at(Instant::now())
    }

    /// A moment that has just passed.
    pub(crate) fn at(self, at: Instant) -> Moment {
        let computed = if self == Self::Process { computed() } else { None };
        Moment { at, computed }
    }
}

impl Moment {
    #[cfg(test)]
    pub(crate) fn new(at: Instant, computed: Option<Duration>) -> Self {
        Self { at, computed }
    }

    /// An upper bound on the time that a device has worked since `start`.
    pub(crate) fn since(&self, start: &Self) -> Duration {
        let passed = self.at.saturating_duration_since(start.at);
        let computed = self.computed.zip(start.computed).map(|(end, start)| end.saturating_sub(start));
        computed.map_or(passed, |computed| passed.min(computed))
    }
}

#[cfg(unix)]
fn computed() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

#[cfg(not(unix))]
fn computed() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_worked_no_longer_than_time_has_passed() {
        let start = Clock::Process.now();
        // Until 200 ms of CPU time have been used, however long that takes.
        while start.computed.is_some() && Clock::Process.now().since(&start) < Duration::from_millis(200) {}
        let end = Clock::Process.now();
        assert!(end.since(&start) <= end.at - start.at);
        assert_eq!(Clock::Wall.now().computed, None);
    }

    #[test]
    fn the_shorter_of_both_times_counts() {
        let (at, ms) = (Instant::now(), Duration::from_millis);
        let start = Moment::new(at, Some(ms(500)));
        assert_eq!(Moment::new(at + ms(100), Some(ms(540))).since(&start), ms(40));
        assert_eq!(Moment::new(at + ms(100), Some(ms(690))).since(&start), ms(100));
        assert_eq!(Moment::new(at + ms(100), None).since(&start), ms(100));
    }
}
