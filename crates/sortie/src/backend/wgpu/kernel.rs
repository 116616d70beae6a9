//! The compiled form of a kernel on a wgpu device: its bind group layouts, and its pipelines, compiled when first
//! needed.

use std::{
    any::Any,
    ops::Range,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use super::layouts::GroupLayout;
use crate::{
    error::{Error, Result},
    exit::Guarded,
    kernel::{CompiledKernel, ImmediatesAs, Interface, Kernel},
};

/// A kernel on a wgpu device. Its variants, plain and wrapped, are rewrites of one module for one set of bind group
/// layouts.
pub(crate) struct WgpuKernel {
    /// Created before the first pipeline.
    groups: OnceLock<Vec<BindGroupSlot>>,
    pub(super) immediates: ImmediatesAs,
    immediate_bytes: u32,
    /// Plain and wrapped. A failure is not kept: memory may become free.
    pub(super) pipelines: [OnceLock<Pipeline>; 2],
    /// One compilation at a time, so that no variant is compiled twice.
    pub(super) compiling: Mutex<()>,
}

/// One bind group of a kernel.
#[derive(Debug)]
pub(crate) struct BindGroupSlot {
    pub(crate) number: u32,
    /// The bindings of the interface that are in it.
    pub(crate) bindings: Range<usize>,
    pub(crate) layout: Arc<GroupLayout>,
}

/// A compiled variant of a kernel.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) raw: wgpu::ComputePipeline,
    /// Parameters that the user does not see, bound with dynamic offsets: immediates, then the grid.
    pub(crate) hidden: Option<Hidden>,
    /// Immediates are set natively.
    pub(crate) immediates: bool,
}

#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) number: u32,
    pub(crate) layout: Arc<GroupLayout>,
    pub(crate) immediates: Option<u64>,
    pub(crate) grid: bool,
}

impl WgpuKernel {
    pub(super) fn new(interface: &Interface, immediates: ImmediatesAs) -> Self {
        Self {
            groups: OnceLock::new(),
            immediates,
            immediate_bytes: interface.immediates.as_ref().map_or(0, |own| own.size),
            pipelines: [OnceLock::new(), OnceLock::new()],
            compiling: Mutex::new(()),
        }
    }

    /// The compiled form of a kernel of a wgpu device.
    pub(crate) fn of(kernel: &Kernel) -> Result<&Self> {
        let compiled: &dyn Any = kernel.compiled();
        let own = compiled.downcast_ref::<Guarded<Self>>();
        own.map(|own| &**own).ok_or_else(|| Error::internal("a wgpu device was given a kernel of another backend"))
    }

    /// The bind groups of a kernel that has been compiled.
    #[inline]
    pub(crate) fn groups(&self) -> &[BindGroupSlot] {
        self.groups.get().unwrap_or_else(|| unreachable!("layouts are created before pipelines"))
    }

    /// Its bind groups, which `make` creates unless they exist.
    pub(super) fn groups_or(&self, make: impl FnOnce() -> Result<Vec<BindGroupSlot>>) -> Result<&[BindGroupSlot]> {
        if self.groups.get().is_none() {
            let groups = make()?;
            self.groups.get_or_init(|| groups);
        }
        Ok(self.groups())
    }

    /// The pipeline of a variant that has been compiled.
    #[inline]
    pub(crate) fn pipeline(&self, wrapped: bool) -> Option<&Pipeline> {
        self.pipelines[usize::from(wrapped)].get()
    }

    /// How its immediates are passed. `in_memory`: not natively, even if the device could.
    pub(crate) fn immediates_as(&self, in_memory: bool) -> ImmediatesAs {
        match self.immediates {
            ImmediatesAs::Native if in_memory && self.immediate_bytes > 0 => ImmediatesAs::Storage,
            own => own,
        }
    }

    /// Bytes of immediates that are set natively, if they are passed this way.
    pub(crate) fn native_immediate_bytes(&self, passed: ImmediatesAs) -> u32 {
        if passed == ImmediatesAs::Native { self.immediate_bytes } else { 0 }
    }

    /// Bytes of immediates that go through the parameter buffer.
    pub(crate) fn hidden_immediates(&self, passed: ImmediatesAs) -> u32 {
        self.immediate_bytes - self.native_immediate_bytes(passed)
    }
}

impl CompiledKernel for Guarded<WgpuKernel> {
    fn hidden_immediates(&self) -> u32 {
        WgpuKernel::hidden_immediates(self, self.immediates)
    }

    fn with_writable(&self, interface: &Interface) -> Option<Box<dyn CompiledKernel>> {
        Some(Box::new(Guarded::new(WgpuKernel::new(interface, self.immediates))))
    }
}

#[cfg(test)]
mod tests {
    use super::WgpuKernel;
    use crate::{device::Device, error::ErrorKind};

    #[test]
    fn a_kernel_of_another_backend_is_an_error() {
        let cpu = Device::cpu().expect("it is always there");
        let kernel = cpu.kernel("@compute @workgroup_size(1) fn main() {}").expect("it is valid");
        let error = WgpuKernel::of(&kernel).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::Internal));
    }
}
