//! Times the steps of a submission on the host.

use sortie_plan::StepId;

use crate::{
    clock::Instant,
    profile::{ExecutedStep, Log, TimedSteps},
};

/// Times the steps of one submission for a profile.
pub(super) struct CpuTimer<'a> {
    log: &'a Log,
    part: u32,
    ran: Vec<ExecutedStep>,
    between: Vec<TimedSteps>,
    /// When the last step ended, in nanoseconds since the log began.
    last: u64,
}

impl<'a> CpuTimer<'a> {
    pub(super) fn new(log: &'a Log, part: u32, ops: usize) -> Self {
        let (ran, between) = (Vec::with_capacity(ops), Vec::with_capacity(ops));
        Self { log, part, ran, between, last: log.since(Instant::now()) }
    }

    /// Out of line, so that running without a profile does not pay for it.
    #[cold]
    pub(super) fn executed(&mut self, step: StepId) {
        let now = self.log.since(Instant::now());
        let first = u32::try_from(self.ran.len()).unwrap_or(u32::MAX);
        self.ran.push(ExecutedStep { step: step.0, part: self.part, encode: 0 });
        let begin = std::mem::replace(&mut self.last, now);
        self.between.push(TimedSteps { first, count: 1, part: self.part, begin, end: now });
    }

    pub(super) fn file(self) {
        self.log.ran(self.ran, self.between);
    }
}
