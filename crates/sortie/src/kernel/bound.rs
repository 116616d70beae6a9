//! Kernels whose immediates lie in memory.

use std::{panic::Location, sync::Arc};

use naga::ResourceBinding;

use super::{
    Kernel, KernelCache,
    interface::{Binding, BindingKind},
    rewrite::{self, ImmediatesAs},
    stack::compile,
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
};

impl Device {
    /// The same kernel with its `var<immediate>` read from memory: one more binding, the last one, of as many bytes. In a replay that is how each
    /// run brings its own.
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
    /// let mut batch = device.batch();
    /// let by = batch.input::<u32>([1]);
    /// batch.dispatch(&add, &[&x, &by], Grid::items(3));
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
    /// [`Bindings`](ErrorKind::Bindings) for a kernel of another device or without immediates, [`TooLarge`](ErrorKind::TooLarge) when the device has
    /// no room for one more binding.
    #[track_caller]
    pub fn bind_immediates(&self, kernel: &Kernel) -> Result<Kernel> {
        let here = Location::caller();
        self.bound(kernel).map_err(|error| error.at(here))
    }

    fn bound(&self, kernel: &Kernel) -> Result<Kernel> {
        let shared = self.shared();
        let wrong = |what: &str| {
            let message = format!("bind_immediates: kernel {:?} {what}", kernel.entry());
            Error::new(ErrorKind::Bindings, message)
        };
        if kernel.device_id() != shared.id() {
            return Err(wrong("belongs to another device"));
        }
        if kernel.immediate_bytes() == 0 {
            return Err(wrong("has no immediates"));
        }
        if let Some(bound) = kernel.inner.bound.get() {
            return Ok(bound.clone());
        }
        let deadline = kernel.deadline(shared.options().compile_budget);
        let (theirs, kernels) = (kernel.clone(), Arc::clone(shared.kernels()));
        let bound = compile(deadline, &kernel.said(), move || theirs.with_bound_immediates(&kernels))??;
        self.ready(&bound, deadline)?;
        Ok(kernel.inner.bound.get_or_init(|| bound).clone())
    }
}

impl Kernel {
    /// Must run on a large stack.
    fn with_bound_immediates(&self, kernels: &KernelCache) -> Result<Self> {
        let mut interface = self.interface().clone();
        let Some(immediates) = interface.immediates.take() else { unreachable!("it has some") };
        let (group, binding) = interface.bindings.last().map_or((0, 0), |last| (last.group, last.binding + 1));
        let mut module = self.module()?.clone();
        let name = rewrite::move_immediates(&mut module, ImmediatesAs::Storage, ResourceBinding { group, binding });
        interface.bindings.push(Binding {
            group,
            binding,
            name: name.unwrap_or_else(|| "immediates".into()),
            kind: BindingKind::Storage { writes: false },
            min_bytes: u64::from(immediates.size),
            tail: None,
            moves: [true, false],
            scalar: None,
        });
        kernels.again(self, module, interface)
    }
}
