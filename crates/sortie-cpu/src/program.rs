//! A compiled kernel.

use crate::{
    Checks, DispatchArgs, Halted, LoweringOptions, ProgramBinding, RaceReport, Stop, Threads, Unsupported,
    compiled::Compiled, lower, run,
};

/// A compiled kernel: lowered to instructions on registers, ready to run any number of times.
#[derive(Debug)]
pub struct Program {
    compiled: Compiled,
}

impl Program {
    /// Compiles an entry point of a validated module whose overrides are resolved.
    ///
    /// # Errors
    /// The first construct that is not supported.
    pub fn new(module: &naga::Module, info: &naga::valid::ModuleInfo, entry: &str) -> Result<Self, Unsupported> {
        Self::with_options(module, info, entry, LoweringOptions::default())
    }

    /// As [`Program::new`], with options. For tests, whose kernels are small.
    ///
    /// # Errors
    /// The first construct that is not supported.
    #[doc(hidden)]
    pub fn with_options(
        module: &naga::Module,
        info: &naga::valid::ModuleInfo,
        entry: &str,
        tuning: LoweringOptions,
    ) -> Result<Self, Unsupported> {
        Ok(Self { compiled: lower::lower(module, info, entry, tuning)? })
    }

    /// The buffers that the entry point uses, by group, then binding.
    #[must_use]
    pub fn bindings(&self) -> &[ProgramBinding] {
        &self.compiled.slots
    }

    /// Invocations per workgroup in each dimension.
    #[must_use]
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.compiled.geometry.workgroup
    }

    /// Whether its workgroups may wait for each other. If so, each thread runs one workgroup at a time, and they start
    /// in order.
    #[doc(hidden)]
    #[must_use]
    pub fn waits(&self) -> bool {
        self.compiled.geometry.alone
    }

    /// Runs a dispatch on the calling thread, and on `threads` if it is large.
    ///
    /// # Errors
    /// `stop` ended the run.
    pub fn run(&self, run: DispatchArgs<'_, '_>, threads: &Threads, stop: Stop<'_>) -> Result<(), Halted> {
        run::run(&self.compiled, run, threads, stop)
    }

    /// Runs a dispatch on the calling thread and checks every access; slow. Reports the first mistake of each kind at
    /// each location.
    ///
    /// # Errors
    /// `stop` ended the run.
    pub fn check(&self, run: DispatchArgs<'_, '_>, checks: Checks, stop: Stop<'_>) -> Result<Vec<RaceReport>, Halted> {
        run::check(&self.compiled, run, checks, stop)
    }
}
