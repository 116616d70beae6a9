//! The compiled form of a kernel on the built-in CPU, and what compiles it.

use std::{any::Any, sync::Arc, time::Instant};

use naga::valid::Capabilities;
use sortie_cpu::{Finding, Program};

use crate::{
    device::Limits,
    error::{Error, ErrorKind, Result},
    kernel::{
        BindingKind, CompiledKernel, Kernel, KernelCompiler, Parsed, check_hidden_group, check_hidden_immediates,
        immediates_fit_uniform,
    },
    metrics::{Count, Counters},
};

/// Compiles kernels for the built-in CPU.
#[derive(Debug)]
pub(crate) struct CpuCompiler {
    pub(crate) limits: Limits,
    /// Kernels may use only what every device has.
    pub(crate) portable: bool,
    pub(crate) counters: Arc<Counters>,
}

impl KernelCompiler for CpuCompiler {
    /// No subgroups, and no numbers of 64 bits. On a portable device no `f16` either.
    fn capabilities(&self) -> Capabilities {
        // WebGPU has `pack2x16float` without `f16`.
        let always = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        if self.portable { always } else { always | Capabilities::SHADER_FLOAT16 }
    }

    fn compile(&self, source: &str, parsed: &Parsed) -> Result<Box<dyn CompiledKernel>> {
        let (start, interface) = (Instant::now(), &parsed.interface);
        if self.portable && interface.immediates.is_some() {
            // What other devices need where immediates are not native.
            check_hidden_group(interface, &self.limits)?;
            let uniform = immediates_fit_uniform(parsed, self.capabilities());
            check_hidden_immediates(interface, &self.limits, uniform)?;
        }
        let compiled = CpuKernel::new(source, parsed)?;
        self.counters.pipelines_created.add(1);
        tracing::debug!(target: "sortie", entry = interface.entry, time = ?start.elapsed(), "a kernel is ready");
        Ok(Box::new(compiled))
    }
}

/// A program, and how the interface's bindings become its slots.
#[derive(Debug)]
pub(crate) struct CpuKernel {
    pub(crate) program: Program,
    /// For each slot of the program, which of the interface's bindings it is. A binding that the kernel does not use has no slot.
    pub(crate) slots: Vec<Take>,
    /// Findings name its lines.
    source: Box<str>,
}

impl CompiledKernel for CpuKernel {}

/// What a slot of the program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    /// The index of a binding in the interface, and of its access in a dispatch.
    pub(crate) binding: usize,
    pub(crate) writes: bool,
}

impl CpuKernel {
    /// The compiled form of a kernel of the built-in CPU.
    pub(crate) fn of(kernel: &Kernel) -> Result<&Self> {
        let compiled: &dyn Any = kernel.compiled();
        compiled.downcast_ref().ok_or_else(|| Error::internal("the built-in CPU was given a kernel of another backend"))
    }

    /// Must run on a large stack.
    fn new(source: &str, parsed: &Parsed) -> Result<Self> {
        let interface = &parsed.interface;
        let program = Program::new(&parsed.module, &parsed.info, &interface.entry).map_err(|unsupported| {
            let at = line(source, unsupported.span).map(|line| format!(" at line {line}")).unwrap_or_default();
            let message = format!("{}{at} is not supported on the built-in CPU", unsupported.what);
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let slots = program.slots().iter().map(|slot| {
            let mut bindings = interface.bindings.iter().enumerate();
            let found = bindings.find(|(_, one)| (one.group, one.binding) == (slot.group, slot.binding));
            let take =
                found.map(|(binding, one)| Take { binding, writes: one.kind == BindingKind::Storage { writes: true } });
            take.ok_or_else(|| Error::internal("a kernel binds what it does not declare; please report it"))
        });
        let slots = slots.collect::<Result<_>>()?;
        Ok(Self { program, slots, source: source.into() })
    }

    /// What was found, with its line.
    pub(crate) fn describe(&self, finding: &Finding) -> String {
        match line(&self.source, finding.span) {
            Some(line) => format!("{} at line {line}", finding.message),
            None => finding.message.clone(),
        }
    }
}

fn line(source: &str, span: naga::Span) -> Option<u32> {
    span.is_defined().then(|| span.location(source).line_number)
}
