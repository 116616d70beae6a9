//! What a call costs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::allocator::allocations;

/// Whose CPU time is counted.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// That of all threads, a software driver's included.
    Process,
    /// That of the calling thread.
    Thread,
}

/// CPU time up to now.
pub fn cpu_time(clock: Clock) -> Duration {
    let time = clock_gettime(match clock {
        Clock::Process => ClockId::ProcessCPUTime,
        Clock::Thread => ClockId::ThreadCPUTime,
    });
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Cost of a call.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU time in µs.
    pub cpu_us: f64,
    /// Wall time in µs.
    pub wall_us: f64,
    /// Heap allocations by all threads, if the bench counts them.
    pub allocations: f64,
}

impl Cost {
    /// Measures a call.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub fn of<E>(clock: Clock, call: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let (count, wall, cpu) = (allocations(), Instant::now(), cpu_time(clock));
        call()?;
        let (cpu, wall, count) = (cpu_time(clock) - cpu, wall.elapsed(), allocations() - count);
        Ok(Self { cpu_us: cpu.as_secs_f64() * 1e6, wall_us: wall.as_secs_f64() * 1e6, allocations: count as f64 })
    }
}
