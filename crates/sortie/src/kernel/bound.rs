//! Kernels whose immediates are in memory.

use std::sync::Arc;

use naga::ResourceBinding;

use super::{
    Kernel, KernelCache,
    compile_thread::{Deadline, compile},
    interface::Binding,
    rewrite::{self, ImmediatesAs},
};
use crate::error::{Error, ErrorKind, Result};

impl Kernel {
    /// The same kernel with its immediates in memory, created once; `ready` compiles it for the device.
    pub(crate) fn with_immediates_in_memory(
        &self,
        kernels: &Arc<KernelCache>,
        deadline: Deadline,
        ready: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let wrong = |what: &str| {
            let message = format!("bind_immediates: kernel {:?} {what}", self.entry());
            Error::new(ErrorKind::Bindings, message)
        };
        if self.device_id() != kernels.device {
            return Err(wrong("belongs to another device"));
        }
        if self.immediate_bytes() == 0 {
            return Err(wrong("has no immediates"));
        }
        if let Some(bound) = self.inner.bound.get() {
            return Ok(bound.clone());
        }
        let (theirs, cache) = (self.clone(), Arc::clone(kernels));
        let bound = compile(deadline, &self.described(), move || theirs.with_bound_immediates(&cache))??;
        ready(&bound)?;
        Ok(self.inner.bound.get_or_init(|| bound).clone())
    }

    /// Must run on a large stack.
    fn with_bound_immediates(&self, kernels: &KernelCache) -> Result<Self> {
        let mut interface = self.interface().clone();
        let Some(immediates) = interface.immediates.take() else { unreachable!("it has some") };
        let (group, binding) = interface.bindings.last().map_or((0, 0), |last| (last.group, last.binding + 1));
        let mut module = self.module()?.clone();
        let name = rewrite::move_immediates(&mut module, ImmediatesAs::Storage, ResourceBinding { group, binding });
        let name = name.unwrap_or_else(|| "immediates".into());
        interface.bindings.push(Binding::storage(group, binding, name, false, immediates.size.into()));
        kernels.again(self, module, interface)
    }
}
