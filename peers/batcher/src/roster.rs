//! Who takes part, and with which settings.
//!
//! The limit is the same for everyone. sortie has its other settings as they come; the others have what was best for each case and number of callers.

use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::aint_one::AintOne;
use crate::attribute::Batched;
use crate::blocking::Blocking;
use crate::channels::Channels;
use crate::contest::{Contest, Outcome};
use crate::device::{Case, Device};
use crate::engine::Amate;
use crate::lane::{Lane, Service};
use crate::ours;
use crate::ultra::Ultra;

/// One contest.
pub(crate) struct Roster<'a> {
    /// Where everyone runs.
    pub(crate) runtime: &'a Runtime,
    /// How long a run takes.
    pub(crate) case: Case,
    /// How long the device spins.
    pub(crate) spin: std::time::Duration,
    /// How many callers there are.
    pub(crate) n: usize,
    /// Most rows of a batch.
    pub(crate) limit: usize,
    /// The names of those who take part; everyone when there are none.
    pub(crate) only: &'a [String],
}

impl Roster<'_> {
    /// Everyone who takes part.
    pub(crate) fn contest(&self) -> Outcome<Contest> {
        let _inside = self.runtime.enter();
        let (n, limit) = (self.n, self.limit);
        let device = Arc::new(Device::new(self.case, self.spin));
        // When all callers fit into a batch, two batches at once only make both smaller.
        let (batches, blocking) = if n > limit { (2, Blocking::Aside) } else { (1, Blocking::Here) };
        let workers = if self.case == Case::Noop { 3 } else { batches };
        let mut all = Contest::new(self.case, n, limit);
        self.enter(&mut all, "sortie", || ours::simulated(device.clone(), limit))?;
        self.enter(&mut all, "sortie-again", || ours::simulated(device.clone(), limit))?;
        if self.case == Case::Noop {
            self.enter(&mut all, "sortie-kernel", || ours::computed(limit))?;
        }
        self.enter(&mut all, "amate", || Ok(Amate::new(device.clone(), limit, workers)))?;
        self.enter(&mut all, "batch-aint-one", || Ok(AintOne::new(device.clone(), limit, n, batches, blocking)))?;
        if let Some(batched) = Batched::new(device.clone(), limit) {
            self.enter(&mut all, "batched", || Ok(batched))?;
        }
        self.enter(&mut all, "ultra-batch", || Ok(Ultra::new(device.clone(), limit.min(n))))?;
        self.enter(&mut all, "tokio", || Ok(Channels::new(&device, limit, batches)))?;
        if self.takes_part("direct") {
            all.enter("direct", Lane::direct(self.runtime, limit.min(n), device));
        }
        Ok(all)
    }

    fn takes_part(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == name)
    }

    fn enter<S: Service>(
        &self,
        all: &mut Contest,
        name: &'static str,
        make: impl FnOnce() -> Outcome<S>,
    ) -> Outcome<()> {
        if self.takes_part(name) {
            all.enter(name, Lane::callers(self.runtime, self.n, make()?));
        }
        Ok(())
    }
}
