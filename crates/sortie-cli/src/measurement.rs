//! One timed run.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use sortie::{Batch, Device, Run, Ticket, device::DeviceKind};

/// The number of submissions in flight that is fastest. The built-in CPU is fastest when each batch is waited for.
pub(crate) fn max_in_flight(device: &Device) -> usize {
    // More take memory, and make nothing faster.
    if device.info().kind == DeviceKind::Cpu { 0 } else { 64 }
}

/// The time of a run, with the device's submissions and dispatches during it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    pub(crate) time: Duration,
    pub(crate) submissions: u64,
    pub(crate) dispatches: u64,
}

impl Measurement {
    /// Times `work`, which ends when the device has finished.
    pub(crate) fn of<E>(device: &Device, work: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let (start, before) = (Instant::now(), device.metrics());
        work()?;
        let time = start.elapsed();
        let done = device.metrics() - before;
        Ok(Self { time, submissions: done.submissions, dispatches: done.dispatches })
    }

    pub(crate) fn micros(&self) -> f64 {
        self.time.as_secs_f64() * 1e6
    }
}

/// Submissions in flight. The next one is recorded before the newest is waited for; otherwise round trips would be
/// measured.
#[derive(Debug)]
pub(crate) struct InFlight {
    tickets: VecDeque<Ticket>,
    max: usize,
}

impl InFlight {
    pub(crate) fn on(device: &Device) -> Self {
        Self { tickets: VecDeque::new(), max: max_in_flight(device) }
    }

    pub(crate) fn submit(&mut self, batch: Batch) -> sortie::Result<()> {
        if self.max == 0 { batch.submit() } else { self.push(batch.submit_async()?) }
    }

    pub(crate) fn replay(&mut self, run: Run) -> sortie::Result<()> {
        if self.max == 0 { run.submit() } else { self.push(run.submit_async()?) }
    }

    /// Waits for the oldest if there are too many.
    fn push(&mut self, ticket: Ticket) -> sortie::Result<()> {
        self.tickets.push_back(ticket);
        if self.tickets.len() > self.max {
            self.tickets.pop_front().map_or(Ok(()), |oldest| oldest.wait())
        } else {
            Ok(())
        }
    }

    pub(crate) fn wait(self) -> sortie::Result<()> {
        self.tickets.iter().try_for_each(Ticket::wait)
    }
}
