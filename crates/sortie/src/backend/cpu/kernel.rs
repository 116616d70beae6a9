//! The compiled form of a kernel on the built-in CPU: a program compiled from WGSL, or native code.

use std::any::Any;

use sortie_cpu::{Program, RaceReport};

use super::native::Native;
use crate::{
    error::{Error, ErrorKind, Result},
    kernel::{BindingKind, CompiledKernel, Kernel, Parsed},
};

/// A kernel on the built-in CPU.
#[derive(Debug)]
pub(crate) enum CpuKernel {
    /// WGSL.
    Program(CpuProgram),
    /// A tensor program in plain Rust.
    Native(Native),
}

impl CompiledKernel for CpuKernel {}

impl CpuKernel {
    /// The compiled form of a kernel of the built-in CPU.
    pub(crate) fn of(kernel: &Kernel) -> Result<&Self> {
        let compiled: &dyn Any = kernel.compiled();
        compiled.downcast_ref().ok_or_else(|| Error::internal("the built-in CPU was given a kernel of another backend"))
    }

    /// For each memory range that a dispatch passes to it, the binding of the interface.
    #[inline]
    pub(crate) fn slots(&self) -> &[SlotBinding] {
        match self {
            Self::Program(program) => &program.slots,
            Self::Native(native) => native.slots(),
        }
    }
}

/// A program, and the mapping from the interface's bindings to its slots.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    pub(crate) program: Program,
    /// For each slot of the program, the binding of the interface. A binding that the kernel does not use has no slot.
    slots: Vec<SlotBinding>,
    /// For the line numbers in findings.
    source: Box<str>,
}

/// The binding of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotBinding {
    /// The index of a binding in the interface, and of its access in a dispatch.
    pub(crate) binding: usize,
    pub(crate) writes: bool,
}

impl CpuProgram {
    /// Must run on a large stack.
    pub(super) fn new(source: &str, parsed: &Parsed) -> Result<Self> {
        let interface = &parsed.interface;
        let program = Program::new(&parsed.module, &parsed.info, &interface.entry).map_err(|unsupported| {
            let at = line(source, unsupported.span).map(|line| format!(" at line {line}")).unwrap_or_default();
            let message = format!("{}{at} is not supported on the built-in CPU", unsupported.what);
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let slots = program.bindings().iter().map(|slot| {
            let mut bindings = interface.bindings.iter().enumerate();
            let found = bindings.find(|(_, one)| (one.group, one.binding) == (slot.group, slot.binding));
            let take = found.map(|(binding, one)| SlotBinding {
                binding,
                writes: one.kind == BindingKind::Storage { writes: true },
            });
            take.ok_or_else(|| Error::internal("a kernel binds what it does not declare; please report it"))
        });
        let slots = slots.collect::<Result<_>>()?;
        Ok(Self { program, slots, source: source.into() })
    }

    /// The message of a finding, with its line.
    pub(crate) fn describe(&self, finding: &RaceReport) -> String {
        match line(&self.source, finding.span) {
            Some(line) => format!("{} at line {line}", finding.message),
            None => finding.message.clone(),
        }
    }
}

fn line(source: &str, span: naga::Span) -> Option<u32> {
    span.is_defined().then(|| span.location(source).line_number)
}

#[cfg(test)]
mod tests {
    use super::CpuKernel;
    use crate::{device::Device, error::ErrorKind, options::DeviceOptions};

    #[test]
    fn a_kernel_of_another_backend_is_an_error() {
        let noop = DeviceOptions::default().with_device("noop");
        let noop = Device::open_with(noop).expect("it is always there");
        let kernel = noop.kernel("@compute @workgroup_size(1) fn main() {}").expect("it is valid");
        let error = CpuKernel::of(&kernel).expect_err("it is none of the CPU's");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
