//! A kernel made ready for the built-in CPU.

use naga::valid::Capabilities;
use sortie_cpu::{Finding, Program};

use super::{interface::BindingKind, parse::Parsed};
use crate::error::{Error, ErrorKind, Result};

/// What kernels may use there: no subgroups, and no numbers of 64 bits. On a portable device no `f16` either.
pub(super) fn capabilities(portable: bool) -> Capabilities {
    // WebGPU has `pack2x16float` without `f16`.
    let always = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if portable { always } else { always | Capabilities::SHADER_FLOAT16 }
}

/// A program, and how the interface's bindings become its slots.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) program: Program,
    /// For each slot of the program, which of the interface's bindings it is. A binding that the kernel does not use has no slot.
    pub(crate) slots: Vec<Take>,
    /// Findings name its lines.
    source: Box<str>,
}

/// What a slot of the program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    /// The index of a binding in the interface, and of its access in a dispatch.
    pub(crate) binding: usize,
    pub(crate) writes: bool,
}

impl Ready {
    /// Must run on a large stack.
    pub(super) fn new(source: &str, parsed: &Parsed) -> Result<Self> {
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
