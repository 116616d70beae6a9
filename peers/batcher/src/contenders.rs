//! All contenders, with their settings.
//!
//! The limit is the same for all. sortie has its defaults otherwise; the others have the settings that were best for each
//! case and number of callers.

use std::sync::Arc;

use sortie_bench::Args;
use tokio::runtime::Runtime;

use crate::aint_one::AintOne;
use crate::attribute::Batched;
use crate::blocking::Blocking;
use crate::callers::{Callers, Service};
use crate::channels::Channels;
use crate::comparison::{Comparison, Outcome};
use crate::device::{Case, Device};
use crate::engine::Amate;
use crate::ours;
use crate::ultra::Ultra;

/// The contenders of one comparison.
pub(crate) struct Contenders<'a> {
    /// The runtime of all of them.
    pub(crate) runtime: &'a Runtime,
    /// How long a run takes.
    pub(crate) case: Case,
    /// How long the device spins.
    pub(crate) spin: std::time::Duration,
    /// Number of callers.
    pub(crate) n: usize,
    /// Rows of a batch, at most.
    pub(crate) limit: usize,
    /// `--only` selects contenders by name.
    pub(crate) args: &'a Args,
}

impl Contenders<'_> {
    /// Starts all contenders that are selected.
    pub(crate) fn open(&self) -> Outcome<Comparison> {
        let _inside = self.runtime.enter();
        let (n, limit) = (self.n, self.limit);
        let device = Arc::new(Device::new(self.case, self.spin));
        // When all callers fit into a batch, two batches at once only make both smaller.
        let (batches, blocking) = if n > limit { (2, Blocking::Aside) } else { (1, Blocking::Here) };
        let workers = if self.case == Case::Noop { 3 } else { batches };
        let mut all = Comparison::new(self.case, n, limit);
        self.add(&mut all, "sortie", || ours::simulated(device.clone(), limit))?;
        self.add(&mut all, "sortie-again", || ours::simulated(device.clone(), limit))?;
        if self.case == Case::Noop {
            self.add(&mut all, "sortie-kernel", || ours::computed(limit))?;
        }
        self.add(&mut all, "amate", || Ok(Amate::new(device.clone(), limit, workers)))?;
        self.add(&mut all, "batch-aint-one", || Ok(AintOne::new(device.clone(), limit, n, batches, blocking)))?;
        if let Some(batched) = Batched::new(device.clone(), limit) {
            self.add(&mut all, "batched", || Ok(batched))?;
        }
        self.add(&mut all, "ultra-batch", || Ok(Ultra::new(device.clone(), limit.min(n))))?;
        self.add(&mut all, "tokio", || Ok(Channels::new(&device, limit, batches)))?;
        if self.args.selects("direct") {
            all.add("direct", Callers::direct(self.runtime, limit.min(n), device));
        }
        Ok(all)
    }

    fn add<S: Service>(
        &self,
        all: &mut Comparison,
        name: &'static str,
        make: impl FnOnce() -> Outcome<S>,
    ) -> Outcome<()> {
        if self.args.selects(name) {
            all.add(name, Callers::new(self.runtime, self.n, make()?));
        }
        Ok(())
    }
}
