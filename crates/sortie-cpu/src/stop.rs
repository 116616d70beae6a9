//! Stopping a run from outside.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

/// When a run is to end before its end. Asked between loop iterations and between sets of workgroups.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    /// Set by whoever wants it to end.
    pub canceled: &'a AtomicBool,
    /// The time from which on it is over budget.
    pub deadline: Option<Instant>,
}

/// Why a run ended early. What it wrote until then stays written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halted {
    /// Somebody asked.
    Canceled,
    /// Its time was over.
    OverBudget,
}

impl Stop<'_> {
    /// Whether to go on.
    ///
    /// # Errors
    /// Why not.
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
