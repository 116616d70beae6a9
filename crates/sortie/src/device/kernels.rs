//! Kernels of a device.

use std::panic::Location;

use super::{Device, DeviceCore};
use crate::{
    error::Result,
    kernel::{Deadline, Kernel, Module, ModuleDevice},
};

impl Device {
    /// Compiles a WGSL kernel with one entry point.
    ///
    /// # Errors
    /// [`Shader`](crate::ErrorKind::Shader) with naga's message and the line;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) naming a feature that this device lacks;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the source or a resource it declares exceeds a limit;
    /// [`Timeout`](crate::ErrorKind::Timeout) if compiling takes longer than
    /// [`compile_budget`](crate::DeviceOptions::compile_budget); [`Overloaded`](crate::ErrorKind::Overloaded) while two
    /// kernels over that budget are still being compiled.
    #[track_caller]
    pub fn kernel(&self, source: &str) -> Result<Kernel> {
        let here = Location::caller();
        self.core.compile_kernel(source, None, &[]).map_err(|error| error.at(here))
    }

    /// Parses a WGSL source with several entry points, or with `override` constants, whose kernels are then compiled one
    /// by one: `device.module(SOURCE)?.kernel("count")?`.
    ///
    /// # Errors
    /// [`Shader`](crate::ErrorKind::Shader) with naga's message and the line;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the source exceeds a limit.
    #[track_caller]
    pub fn module(&self, source: &str) -> Result<Module> {
        let here = Location::caller();
        let entries = Kernel::entries_within(source, self.core.options.compile_budget);
        let entries = entries.map_err(|error| error.at(here))?;
        Ok(Module::new(self.core.clone(), source, entries))
    }

    /// The same kernel with its `var<immediate>` read from memory: it gets one more binding, the last one, of the same
    /// size. With it, each run of a replay can have its own immediates.
    ///
    /// ```
    /// use sortie::Grid;
    /// # let device = sortie::Device::cpu()?;
    /// let add = device.kernel("
    ///     var<immediate> by: u32;
    ///     @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if id.x < arrayLength(&x) { x[id.x] += by; }
    ///     }
    /// ")?;
    /// let add = device.bind_immediates(&add)?;
    /// let x = device.upload(&[10_u32, 20, 30])?;
    /// let batch = device.batch();
    /// let (by, tensor) = batch.input::<u32>([1]);
    /// batch.dispatch(&add, &[&x, &tensor], Grid::items(3));
    /// let replay = batch.freeze()?;
    /// for step in 1..4 {
    ///     let mut run = replay.run();
    ///     run.write(by, &[step]);
    ///     run.submit()?;
    /// }
    /// assert_eq!(x.download()?, [16, 26, 36]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Bindings`](crate::ErrorKind::Bindings) for a kernel of another device or without immediates;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the device allows no further binding.
    #[track_caller]
    pub fn bind_immediates(&self, kernel: &Kernel) -> Result<Kernel> {
        let here = Location::caller();
        let core = &self.core;
        let deadline = kernel.deadline(core.options.compile_budget);
        let ready = |bound: &Kernel| core.make_ready(bound, deadline);
        kernel.with_immediates_in_memory(&core.kernels, deadline, ready).map_err(|error| error.at(here))
    }
}

impl ModuleDevice for DeviceCore {
    fn compile_kernel(&self, source: &str, entry: Option<&str>, constants: &[(String, f64)]) -> Result<Kernel> {
        let _inside = self.backend.enter();
        self.lost.check()?;
        let deadline = Deadline::after(self.options.compile_budget);
        let kernel = self.kernels.get(source, entry, constants, deadline)?;
        self.make_ready(&kernel, deadline)?;
        Ok(kernel)
    }
}

impl DeviceCore {
    /// Compiles a kernel now, so that driver errors are reported here and not by a later batch.
    fn make_ready(&self, kernel: &Kernel, deadline: Deadline) -> Result<()> {
        self.kernels.finish(kernel, deadline).map_err(|error| self.backend.explain(error))?;
        self.backend.probe();
        self.lost.check()
    }
}
