//! Stopping a run from outside.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

/// Conditions that end a run early. Checked between loop iterations and between rectangles of workgroups.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    /// Set to `true` to stop the run.
    pub canceled: &'a AtomicBool,
    /// The run is over budget from this time on.
    pub deadline: Option<Instant>,
}

/// Why a run ended early. Memory keeps what was written until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halted {
    /// [`Stop::canceled`] was set.
    Canceled,
    /// The deadline has passed.
    OverBudget,
}

impl Stop<'_> {
    /// Checks both conditions.
    ///
    /// # Errors
    /// The condition that holds.
    pub fn check(&self) -> Result<(), Halted> {
        if self.canceled.load(Ordering::Relaxed) {
            return Err(Halted::Canceled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Halted::OverBudget),
            _ => Ok(()),
        }
    }
}
