//! The threads that run kernels, and the limits and checks they run with.

use std::time::Duration;

use sortie_cpu::{Checks, Threads};

use crate::{
    clock::Instant,
    error::{Error, Result},
    info::Limits,
    options::DeviceOptions,
};

#[derive(Debug)]
pub(crate) struct CpuThreads {
    pub(super) threads: Threads,
    budget: Option<Duration>,
    /// Race checks for every dispatch, if on.
    pub(super) checks: Option<Checks>,
    /// Most groups in one dimension of an indirect grid: one with more runs nothing, as on other devices.
    pub(super) max_groups: u32,
}

impl CpuThreads {
    pub(crate) fn new(options: &DeviceOptions) -> Result<Self> {
        let threads = Threads::new(options.threads)
            .map_err(|error| Error::internal("the threads of the built-in CPU did not start").caused_by(error))?;
        let checks = options.check_races.then_some(Checks { unwritten: options.check_unwritten });
        let max_groups = if options.portable { Limits::WEBGPU.groups } else { u32::MAX };
        Ok(Self { threads, budget: options.kernel_budget, checks, max_groups })
    }

    pub(crate) fn count(&self) -> usize {
        self.threads.count()
    }

    /// The deadline of a dispatch that starts now. Reads the clock only if there is a budget.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.budget.and_then(|budget| Instant::now().checked_add(budget))
    }

    pub(super) fn budget(&self) -> Duration {
        self.budget.unwrap_or_default()
    }
}
