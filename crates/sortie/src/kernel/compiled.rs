//! The seam between kernels and backends: what a backend makes of a checked module, and what makes it.
//!
//! The front end knows no backend. A backend gets its own type back by a downcast, once for each kernel and not for each operation.

use std::{any::Any, sync::Arc};

use naga::valid::Capabilities;

use super::{Kernel, compile_thread::Deadline, parse::Parsed};
use crate::error::Result;

/// The compiled form of a kernel: what its backend runs.
pub(crate) trait CompiledKernel: Any + Send + Sync {
    /// Bytes of immediates that go through the parameter buffer; 0 when they are native or there are none.
    fn hidden_immediates(&self) -> u32 {
        0
    }
}

/// Compiles the kernels of one device.
pub(crate) trait KernelCompiler: Send + Sync {
    /// What kernels may use.
    fn capabilities(&self) -> Capabilities;

    /// Refuses a user's kernel that is too large for what compiles it. Generated kernels may be of any size.
    fn check_size(&self, parsed: &Parsed) -> Result<()> {
        let _ = parsed;
        Ok(())
    }

    /// The compiled form. What takes a driver long may be left for later. Must run on a large stack.
    fn compile(&self, source: &str, parsed: &Parsed) -> Result<Box<dyn CompiledKernel>>;

    /// Compiles now what [`KernelCompiler::compile`] left for later, so that what the driver refuses is refused here and not in some batch.
    fn finish(self: Arc<Self>, kernel: &Kernel, deadline: Deadline) -> Result<()> {
        let _ = (kernel, deadline);
        Ok(())
    }
}
