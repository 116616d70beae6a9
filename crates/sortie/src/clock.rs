//! Time: the one place of this crate that reads it.
//!
//! An [`Instant`] is a point in time. It is a type of our own so that a platform whose standard library has no clock needs another [`Instant::now`] and nothing else.
//!
//! A [`Moment`] is a point in time, by the clock and by what this process has computed until then. The threads of a software driver are threads of this process. On a busy machine they wait
//! for a processor, and a submission seems to take twice or five times as long as it would; what they compute is the same. So a submission of such a driver has taken no longer than the process
//! has computed meanwhile.

use std::{
    ops::{Add, Sub},
    time::{self, Duration},
};

/// A point in time. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(time::Instant);

impl Instant {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(time::Instant::now())
    }

    /// Since then.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// Zero if `earlier` is later.
    #[inline]
    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// `None` for what is too far away to be a point in time.
    pub(crate) fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// For locks and libraries that wait until then.
    pub(crate) fn to_std(self) -> time::Instant {
        self.0
    }
}

impl From<time::Instant> for Instant {
    fn from(instant: time::Instant) -> Self {
        Self(instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// What the work of a device is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Time that passes.
    Wall,
    /// Time that passes, or that the threads of this process compute if that is less.
    Process,
}

/// A point in time, by the clock and by what this process has computed until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// What the threads of this process have computed; `None` where that does not matter or is not known.
    computed: Option<Duration>,
}

impl Clock {
    /// On [`Clock::Process`] that is a call into the system.
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

    /// How long a device can have worked since then.
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
        // Until a fifth of a second has been computed, however long that takes.
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
