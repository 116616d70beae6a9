//! Kernels of a device.

#![expect(unsafe_code, reason = "the caller of `module_unchecked` vouches for the source")]

use std::panic::Location;

use super::{Device, DeviceCore};
use crate::{
    error::Result,
    kernel::{Checks, Deadline, Kernel, Module, ModuleDevice},
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
        self.core.compile_kernel(source, None, &[], Checks::ALL).map_err(|error| error.at(here))
    }

    /// Parses a WGSL source with several entry points, or with `override` constants, whose kernels are then compiled one
    /// by one: `device.module(SOURCE)?.kernel("count")?`.
    ///
    /// # Errors
    /// [`Shader`](crate::ErrorKind::Shader) with naga's message and the line;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the source exceeds a limit.
    #[track_caller]
    pub fn module(&self, source: &str) -> Result<Module> {
        self.module_with(source, Checks::ALL, Location::caller())
    }

    /// As [`module`](Self::module), but the kernels are compiled without the checks that `checks` switches off, in
    /// batches and native replays alike. Bounded accesses and loops cost up to three times the time of a kernel that does
    /// little else; most kernels hardly notice them. The built-in CPU makes all checks anyway.
    ///
    /// ```
    /// use sortie::wgpu::ShaderRuntimeChecks;
    /// # let device = sortie::Device::cpu()?;
    /// const SOURCE: &str = "
    ///     @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if id.x < arrayLength(&x) { x[id.x] *= 2u; }
    ///     }";
    /// // SAFETY: the only access is within the bounds that the kernel tests, and there is no loop or division.
    /// let double = unsafe { device.module_unchecked(SOURCE, ShaderRuntimeChecks::unchecked())? }.only_kernel()?;
    /// let x = device.upload(&[1_u32, 2, 3])?;
    /// let batch = device.batch();
    /// batch.dispatch(&double, &[&x], 3);
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [2, 4, 6]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Safety
    /// In every dispatch of every kernel of the source, whatever its bindings, grid and immediates:
    /// - without `bounds_checks`, each access is inside its buffer, array, vector or matrix. Otherwise it may read and
    ///   overwrite any memory that the driver can reach, also that of other processes, and of this process on a software
    ///   driver. A buffer may be bound by any of its slices, and a slice may be shorter than the kernel expects.
    /// - without `force_loop_bounding`, each loop ends. A driver may compile others to anything.
    /// - without `int_div_checks`, no integer is divided by zero, and no least integer by −1. On a software driver these
    ///   end the process.
    ///
    /// The other checks of wgpu concern shaders that this crate does not have. To look for such mistakes, run the program
    /// on the built-in CPU with [`check_races`](crate::DeviceOptions::check_races).
    ///
    /// # Errors
    /// As [`module`](Self::module).
    #[track_caller]
    pub unsafe fn module_unchecked(&self, source: &str, checks: wgpu::ShaderRuntimeChecks) -> Result<Module> {
        let checks = Checks {
            bounds: checks.bounds_checks,
            loops: checks.force_loop_bounding,
            divisions: checks.int_div_checks,
            zeroed: true,
        };
        self.module_with(source, checks, Location::caller())
    }

    fn module_with(&self, source: &str, checks: Checks, here: &'static Location<'static>) -> Result<Module> {
        let entries = Kernel::entries_within(source, self.core.options.compile_budget);
        let entries = entries.map_err(|error| error.at(here))?;
        Ok(Module::new(self.core.clone(), source, entries, checks))
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
    fn compile_kernel(
        &self,
        source: &str,
        entry: Option<&str>,
        constants: &[(String, f64)],
        checks: Checks,
    ) -> Result<Kernel> {
        let _inside = self.backend.enter();
        self.lost.check()?;
        let deadline = Deadline::after(self.options.compile_budget);
        let kernel = self.kernels.get(source, entry, constants, checks, deadline)?;
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
