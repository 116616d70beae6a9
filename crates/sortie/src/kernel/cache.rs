//! The kernels of one device by their source, so that the same source is parsed and compiled once.
//!
//! Bound: [`MAX_KERNELS`] kernels; beyond it the least recently used is evicted (kernels still in use live on with their
//! owners).

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use lru::LruCache;
use naga::Module;
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use super::{
    Checks, CompiledKernel, Interface, Kernel, KernelCompiler, Origin, Source,
    compile_thread::{Deadline, compile},
    limits,
    parse::{self, Parsed, validate},
};
use crate::{
    error::Result,
    info::Limits,
    metrics::{AtomicCounter, Counters},
    options::DeviceOptions,
};

/// Far more than programs have; it only bounds programs that keep generating kernels.
const MAX_KERNELS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Everything a kernel depends on, except its device. Constants are compared by their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KernelKey {
    source: String,
    entry: Option<String>,
    constants: Vec<(String, u64)>,
    origin: Origin,
    /// A user's source may be the same as a generated one, and must have its checks.
    checks: Checks,
}

impl KernelKey {
    fn new(source: &str, entry: Option<&str>, constants: &[(String, f64)], (origin, checks): (Origin, Checks)) -> Self {
        let mut constants: Vec<_> = constants.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect();
        constants.sort();
        Self { source: source.into(), entry: entry.map(Into::into), constants, origin, checks }
    }
}

#[derive(derive_more::Debug)]
#[debug("KernelCache {{ kernels: {} }}", kernels.lock().len())]
pub(crate) struct KernelCache {
    /// The id of the device that the kernels belong to.
    pub(super) device: u64,
    limits: Limits,
    compiler: Arc<dyn KernelCompiler>,
    counters: Arc<Counters>,
    /// The checks of generated kernels.
    generated: Checks,
    kernels: Mutex<LruCache<KernelKey, Kernel, FxBuildHasher>>,
}

impl KernelCache {
    pub(crate) fn new(
        device: u64,
        limits: Limits,
        compiler: Arc<dyn KernelCompiler>,
        counters: Arc<Counters>,
        options: &DeviceOptions,
    ) -> Self {
        let kernels = Mutex::new(LruCache::with_hasher(MAX_KERNELS, FxBuildHasher));
        let generated = if options.check_generated { Checks::ALL } else { Checks::GENERATED };
        Self { device, limits, compiler, counters, generated, kernels }
    }

    /// The kernel of a user's source: parsed, but perhaps not [finished](Self::finish).
    pub(crate) fn get(
        self: &Arc<Self>,
        source: &str,
        entry: Option<&str>,
        constants: &[(String, f64)],
        checks: Checks,
        deadline: Deadline,
    ) -> Result<Kernel> {
        self.get_until(source, entry, constants, (Origin::User, checks), deadline)
    }

    /// The kernel of a source that this crate generated. It has no compile budget, no size limit and few checks.
    pub(crate) fn generated(self: &Arc<Self>, source: &str) -> Result<Kernel> {
        let made = (Origin::Generated, self.generated);
        self.get_until(source, None, &[], made, Deadline::after(Duration::MAX))
    }

    fn get_until(
        self: &Arc<Self>,
        source: &str,
        entry: Option<&str>,
        constants: &[(String, f64)],
        (origin, checks): (Origin, Checks),
        deadline: Deadline,
    ) -> Result<Kernel> {
        let key = KernelKey::new(source, entry, constants, (origin, checks));
        if let Some(kernel) = self.kernels.lock().get(&key) {
            self.counters.pipeline_hits.add(1);
            return Ok(kernel.clone());
        }
        let what = match entry {
            Some(entry) => format!("kernel {entry:?}"),
            None => "the kernel".into(),
        };
        let (cache, source) = (Arc::clone(self), source.to_owned());
        let (entry, constants) = (entry.map(str::to_owned), constants.to_vec());
        // The compile thread inserts it into the cache, so a kernel that missed its deadline is found by the next
        // request.
        compile(deadline, &what, move || {
            let parsed = parse::parse(&source, entry.as_deref(), &constants, cache.compiler.capabilities())?;
            if origin == Origin::User {
                cache.compiler.check_size(&parsed)?;
            }
            let kernel = cache.compile(&source, origin, checks, parsed)?;
            // If another thread inserted it first, that one is returned.
            Ok(cache.kernels.lock().get_or_insert(key, || kernel).clone())
        })?
    }

    /// Compiles a kernel without caching it. Must run on a large stack.
    fn compile(&self, source: &str, origin: Origin, checks: Checks, parsed: Parsed) -> Result<Kernel> {
        limits::check_all(&parsed.interface, &self.limits)?;
        let compiled = self.compiler.compile(source, &parsed)?;
        let Parsed { module, mut interface, size, .. } = parsed;
        if origin == Origin::Generated {
            // Tensors are bound as the kernel reads them: several elements at a time, or two halves in a word.
            interface.bindings.iter_mut().for_each(|binding| binding.array = None);
        }
        let source = Source { text: source.into(), origin, module, size, checks };
        Ok(Kernel::new(self.device, interface, Some(Arc::new(source)), compiled))
    }

    /// The same kernel compiled from another module. Must run on a large stack.
    pub(super) fn again(&self, kernel: &Kernel, module: Module, interface: Interface) -> Result<Kernel> {
        let Source { text, origin, size, checks, .. } = kernel.source()?;
        let info = validate(text, &module, self.compiler.capabilities())?;
        self.compile(text, *origin, *checks, Parsed { module, info, interface, size: *size })
    }

    /// A kernel that its backend made without WGSL. It is not cached here: the caller keeps it.
    pub(crate) fn native(&self, interface: Interface, compiled: Box<dyn CompiledKernel>) -> Kernel {
        Kernel::new(self.device, interface, None, compiled)
    }

    /// Compiles all of a kernel now, so that driver errors are reported here and not by a later batch.
    pub(crate) fn finish(&self, kernel: &Kernel, deadline: Deadline) -> Result<()> {
        Arc::clone(&self.compiler).finish(kernel, deadline)
    }
}
