//! The interface between kernels and backends: the compiled form of a checked module, and its compiler.
//!
//! The front end knows no backend. A backend gets its own type back by a downcast, once per kernel and not per
//! operation.

use std::{any::Any, sync::Arc};

use naga::valid::Capabilities;

use super::{Kernel, compile_thread::Deadline, interface::Interface, parse::Parsed};
use crate::error::Result;

/// The compiled form of a kernel, which its backend runs.
pub(crate) trait CompiledKernel: Any + Send + Sync {
    /// Bytes of immediates passed through the parameter buffer; 0 if they are native or there are none.
    fn hidden_immediates(&self) -> u32 {
        0
    }

    /// The form of the same kernel with another interface, in which it may write bindings that it only reads. `None` if
    /// this form does. Calls no driver: what is slow or can fail is done when it is compiled.
    fn with_writable(&self, interface: &Interface) -> Option<Box<dyn CompiledKernel>> {
        let _ = interface;
        None
    }
}

/// Compiles the kernels of one device.
pub(crate) trait KernelCompiler: Send + Sync {
    /// Capabilities that kernels may use.
    fn capabilities(&self) -> Capabilities;

    /// Refuses a user's kernel that is too large for the compiler. Generated kernels have no size limit.
    fn check_size(&self, parsed: &Parsed) -> Result<()> {
        let _ = parsed;
        Ok(())
    }

    /// The compiled form. Slow driver work may be deferred to [`KernelCompiler::finish`]. Must run on a large stack.
    fn compile(&self, source: &str, parsed: &Parsed) -> Result<Box<dyn CompiledKernel>>;

    /// Does the work that [`KernelCompiler::compile`] deferred, so that driver errors are reported here and not by a
    /// later batch.
    fn finish(self: Arc<Self>, kernel: &Kernel, deadline: Deadline) -> Result<()> {
        let _ = (kernel, deadline);
        Ok(())
    }
}
