//! Kernels whose immediates lie in memory.

use std::sync::Arc;

use naga::ResourceBinding;

use super::{
    Kernel,
    compile_thread::compile,
    interface::{Binding, BindingKind},
    parse::{Parsed, validate},
    rewrite::{self, ImmediatesAs},
};
use crate::{
    device::Shared,
    error::{Error, ErrorKind, Result},
};

impl Kernel {
    /// The same kernel with its immediates in memory, made once.
    pub(crate) fn with_immediates_in_memory(&self, shared: &Arc<Shared>) -> Result<Self> {
        let wrong = |what: &str| {
            let message = format!("bind_immediates: kernel {:?} {what}", self.entry());
            Error::new(ErrorKind::Bindings, message)
        };
        if self.device_id() != shared.id() {
            return Err(wrong("belongs to another device"));
        }
        if self.immediate_bytes() == 0 {
            return Err(wrong("has no immediates"));
        }
        if let Some(bound) = self.inner.bound.get() {
            return Ok(bound.clone());
        }
        let deadline = self.deadline(shared);
        let (theirs, parts) = (self.clone(), Arc::clone(shared));
        let bound = compile(deadline, &self.said(), move || theirs.with_bound_immediates(&parts))??;
        bound.make_ready(shared, deadline)?;
        Ok(self.inner.bound.get_or_init(|| bound).clone())
    }

    /// Must run on a large stack.
    fn with_bound_immediates(&self, shared: &Arc<Shared>) -> Result<Self> {
        let Parsed { module, interface, size, .. } = &self.inner.parsed;
        let mut interface = interface.clone();
        let Some(immediates) = interface.immediates.take() else { unreachable!("it has some") };
        let (group, binding) = interface.bindings.last().map_or((0, 0), |last| (last.group, last.binding + 1));
        let mut module = module.clone();
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
        let info = validate(&self.inner.source, &module, Self::capabilities(shared))?;
        Self::of(shared, &self.inner.source, self.inner.origin, Parsed { module, info, interface, size: *size })
    }
}
