//! Compiles kernels for the built-in CPU: WGSL to programs, and tensor programs to native code.

use std::sync::Arc;

use naga::valid::Capabilities;
use sortie_plan::fuse;

use super::{
    kernel::{CpuKernel, CpuProgram},
    native::Native,
};
use crate::{
    backend::Generated,
    clock::Instant,
    error::Result,
    info::Limits,
    kernel::{
        CompiledKernel, KernelCompiler, Parsed, check_hidden_group, check_hidden_immediates, immediates_fit_uniform,
    },
    metrics::{AtomicCounter, Counters},
};

/// Compiles kernels of the built-in CPU.
#[derive(Debug)]
pub(crate) struct CpuCompiler {
    pub(crate) limits: Limits,
    /// Kernels may use only features that every device has.
    pub(crate) portable: bool,
    pub(crate) counters: Arc<Counters>,
}

impl KernelCompiler for CpuCompiler {
    /// No `f64`. On a portable device no `f16`, subgroups and 64-bit integers either.
    fn capabilities(&self) -> Capabilities {
        // WebGPU has `pack2x16float` without `f16`.
        let always = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let optional = Capabilities::SHADER_FLOAT16
            | Capabilities::SUBGROUP
            | Capabilities::SUBGROUP_BARRIER
            | Capabilities::SHADER_INT64
            | Capabilities::SHADER_INT64_ATOMIC_MIN_MAX
            | Capabilities::SHADER_INT64_ATOMIC_ALL_OPS;
        if self.portable { always } else { always | optional }
    }

    fn compile(&self, source: &str, parsed: &Parsed) -> Result<Box<dyn CompiledKernel>> {
        let (start, interface) = (Instant::now(), &parsed.interface);
        if self.portable && interface.immediates.is_some() {
            // The same checks as on devices without native immediates.
            check_hidden_group(interface, &self.limits)?;
            let uniform = immediates_fit_uniform(parsed, self.capabilities());
            check_hidden_immediates(interface, &self.limits, uniform)?;
        }
        let program = CpuProgram::new(source, parsed)?;
        self.counters.pipelines_created.add(1);
        tracing::debug!(target: "sortie", entry = interface.entry, time = ?start.elapsed(), "a kernel is ready");
        Ok(Box::new(CpuKernel::Program(program)))
    }
}

/// The code of a tensor program.
pub(crate) fn generate(program: &fuse::Program) -> Generated {
    let native = Native::of(program);
    let (interface, grid) = (native.interface(), native.grid());
    Generated::Native { compiled: Box::new(CpuKernel::Native(native)), interface, grid }
}
