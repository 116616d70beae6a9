//! A kernel made ready to run.

use crate::{
    Checks, DispatchArgs, Halted, LoweringOptions, ProgramBinding, RaceReport, Stop, Threads, Unsupported,
    compiled::Compiled, lower, run,
};

/// A kernel made ready: types resolved, expressions ordered, registers assigned. Running it only runs it.
#[derive(Debug)]
pub struct Program {
    compiled: Compiled,
}

impl Program {
    /// Prepares an entry point of a validated module whose overrides are resolved.
    ///
    /// # Errors
    /// The first construct that is not covered.
    pub fn new(module: &naga::Module, info: &naga::valid::ModuleInfo, entry: &str) -> Result<Self, Unsupported> {
        Self::with_options(module, info, entry, LoweringOptions::default())
    }

    /// As [`Program::new`], for tests, whose kernels are small.
    ///
    /// # Errors
    /// The first construct that is not covered.
    #[doc(hidden)]
    pub fn with_options(
        module: &naga::Module,
        info: &naga::valid::ModuleInfo,
        entry: &str,
        tuning: LoweringOptions,
    ) -> Result<Self, Unsupported> {
        Ok(Self { compiled: lower::lower(module, info, entry, tuning)? })
    }

    /// The buffers it binds, by group, then binding: every one that the entry point uses.
    #[must_use]
    pub fn bindings(&self) -> &[ProgramBinding] {
        &self.compiled.slots
    }

    /// Invocations of a workgroup in each dimension.
    #[must_use]
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.compiled.geometry.workgroup
    }

    /// Whether its workgroups may wait for each other: they then run one at a time on each thread, and start in order.
    #[doc(hidden)]
    #[must_use]
    pub fn waits(&self) -> bool {
        self.compiled.geometry.alone
    }

    /// Runs it on the calling thread, with the help of `threads` where that pays.
    ///
    /// # Errors
    /// When it was stopped.
    pub fn run(&self, run: DispatchArgs<'_, '_>, threads: &Threads, stop: Stop<'_>) -> Result<(), Halted> {
        run::run(&self.compiled, run, threads, stop)
    }

    /// Runs it on the calling thread alone, slowly, and says what is wrong with it (the first of each kind and place).
    ///
    /// # Errors
    /// When it was stopped.
    pub fn check(&self, run: DispatchArgs<'_, '_>, checks: Checks, stop: Stop<'_>) -> Result<Vec<RaceReport>, Halted> {
        run::check(&self.compiled, run, checks, stop)
    }
}
