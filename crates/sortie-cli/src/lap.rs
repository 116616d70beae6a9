//! What one run of a piece of work came to.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use sortie::{Device, DeviceKind, Ticket};

/// As many submissions under way as do a device good. The built-in CPU runs a batch that is waited for on the spot, which is the fastest it can.
pub(crate) fn most_under_way(device: &Device) -> usize {
    // More take memory, and make nothing faster.
    if device.info().kind == DeviceKind::Cpu { 0 } else { 64 }
}

/// A run: its time, and what the device did meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    pub(crate) time: Duration,
    pub(crate) submissions: u64,
    pub(crate) dispatches: u64,
}

impl Lap {
    /// Runs `work`, which ends when the device has done it.
    pub(crate) fn of<E>(device: &Device, work: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let (start, before) = (Instant::now(), device.metrics());
        work()?;
        let time = start.elapsed();
        let done = device.metrics() - before;
        Ok(Self { time, submissions: done.submissions, dispatches: done.dispatches })
    }
}

/// Submissions under way, of which nobody waits for the newest before the next is recorded: that would measure the way there and back instead.
#[derive(Debug)]
pub(crate) struct UnderWay {
    tickets: VecDeque<Ticket>,
    most: usize,
}

impl UnderWay {
    pub(crate) fn on(device: &Device) -> Self {
        Self { tickets: VecDeque::new(), most: most_under_way(device) }
    }

    /// Whether each is to be waited for.
    pub(crate) fn one_by_one(&self) -> bool {
        self.most == 0
    }

    /// Waits for the oldest if there are too many.
    pub(crate) fn push(&mut self, ticket: Ticket) -> sortie::Result<()> {
        self.tickets.push_back(ticket);
        while self.tickets.len() > self.most
            && let Some(oldest) = self.tickets.pop_front()
        {
            oldest.wait()?;
        }
        Ok(())
    }

    pub(crate) fn land(self) -> sortie::Result<()> {
        self.tickets.iter().try_for_each(Ticket::wait)
    }
}
