//! Kernels by their source, so that the same source is parsed and compiled once per device.
//!
//! Bound: [`MOST`] kernels; past it the one not asked for longest goes (those still in use live on with their owners).

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{Kernel, KernelOptions};

/// Far more than programs have; a bound only for those that generate kernels without end.
const MOST: usize = 1024;

/// All that a kernel depends on, beside its device. Constants are compared by their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelKey {
    source: String,
    entry: Option<String>,
    constants: Vec<(String, u64)>,
}

impl KernelKey {
    pub(crate) fn new(source: &str, options: &KernelOptions) -> Self {
        let mut constants: Vec<_> =
            options.constants.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect();
        constants.sort();
        Self { source: source.into(), entry: options.entry.clone(), constants }
    }
}

#[derive(Debug, Default)]
pub(crate) struct KernelCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    clock: u64,
    kernels: FxHashMap<KernelKey, (u64, Kernel)>,
}

impl KernelCache {
    pub(crate) fn get(&self, key: &KernelKey) -> Option<Kernel> {
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        known.kernels.get_mut(key).map(|(used, kernel)| {
            *used = now;
            kernel.clone()
        })
    }

    /// Keeps a kernel; when another thread was faster, its one is the one to use.
    pub(crate) fn insert(&self, key: KernelKey, kernel: Kernel) -> Kernel {
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let oldest = || known.kernels.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
        if known.kernels.len() >= MOST
            && let Some(oldest) = oldest()
        {
            known.kernels.remove(&oldest);
        }
        known.kernels.entry(key).or_insert((now, kernel)).1.clone()
    }
}
