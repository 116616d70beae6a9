//! The built-in CPU: plans run by the host itself.
//!
//! A plan, with the payload of the batch, is already what the host can run: [`Work`] walks one submission of it. A second list of commands
//! would cost more to write than to run, so there is none, and encoding is a matter of a few pointers however long the batch is.
//!
//! Invariant: what runs has the turn of the submit line, so one submission runs at a time and nobody waits for memory.

mod dispatch;
mod fill;
mod memory;
mod work;
mod workers;

use std::{sync::Arc, time::Duration};

use sortie_cpu::{Library, native::time_libraries};
use sortie_plan::Cut;

pub(crate) use self::work::Work;
use self::{
    work::{Held, Sheet},
    workers::Workers,
};
use crate::{
    backend::cpu::CpuReadback,
    device::Shared,
    encode::{Commands, Encoded, Errand, Frozen, Leave, Payload, PlanCache, Planned, Route},
    error::Result,
    finish::PendingReadback,
    memory::Block,
    metrics::{Count, Counters},
    options::DeviceOptions,
    profile::Log,
};

/// Scratch memory by physical id.
fn place(shared: &Arc<Shared>, planned: &Planned) -> Result<Vec<Arc<Block>>> {
    let sizes = planned.plan.scratch.iter();
    let taken = sizes.map(|bytes| {
        let raw = shared.take_memory(*bytes, None)?;
        Ok(Block::owned(shared.pool().clone(), raw, bytes.next_multiple_of(4)))
    });
    taken.collect()
}

/// The CPU's executor: what it keeps from batch to batch.
#[derive(Debug)]
pub(crate) struct Cpu {
    plans: PlanCache,
    workers: Arc<Workers>,
    counters: Arc<Counters>,
}

impl Cpu {
    pub(crate) fn new(options: &DeviceOptions, counters: Arc<Counters>) -> Result<Self> {
        Ok(Self { plans: PlanCache::new(counters.clone()), workers: Arc::new(Workers::new(options)?), counters })
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.count()
    }

    /// How long each library takes to multiply large matrices, by name. It uses the device's threads.
    pub(crate) fn time_libraries(&self) -> Vec<(&'static str, Duration)> {
        time_libraries(&self.workers.threads).map(|(library, time)| (library.name(), time)).into()
    }

    /// The library that computes large products.
    pub(crate) fn library(&self) -> &'static str {
        self.workers.threads.library().name()
    }

    /// Has large products computed by the library of this name, if there is one.
    pub(crate) fn use_library(&self, name: &str) {
        if let Some(library) = Library::named(name) {
            self.workers.threads.set_library(library);
        }
    }

    pub(crate) fn plans(&self) -> &PlanCache {
        &self.plans
    }

    /// Takes what the work needs out of the payload, which is left as empty as a new one but for its blocks: those of its slots, then the
    /// scratch memory of the plan.
    pub(crate) fn encode(
        &self,
        shared: &Arc<Shared>,
        planned: &Arc<Planned>,
        cuts: &[Cut],
        payload: &mut Payload,
        log: Option<&Arc<Log>>,
        leave: Leave<'_>,
    ) -> Result<Encoded> {
        for block in place(shared, planned)? {
            payload.blocks.push(Some(block));
        }
        let returns = (payload.read_bytes > 0).then(Arc::<CpuReadback>::default);
        let sheet = Sheet::new(planned, Held::take(payload), &self.workers, returns, &self.counters, log.cloned());
        Ok(self.work(sheet, cuts, &payload.blocks, leave))
    }

    pub(crate) fn freeze(
        &self,
        shared: &Arc<Shared>,
        planned: Arc<Planned>,
        route: Arc<Route>,
        mut payload: Payload,
    ) -> Result<Frozen> {
        let scratch = place(shared, route.planned(&planned))?;
        scratch.iter().for_each(|block| block.stale());
        payload.blocks.extend(scratch.into_iter().map(Some));
        Ok(Frozen::new(planned, route, payload))
    }

    pub(crate) fn replay(&self, frozen: &Arc<Frozen>, cuts: &[Cut], errand: Errand, leave: Leave<'_>) -> Encoded {
        let returns = (!errand.reads.is_empty()).then(|| Arc::new(CpuReadback::new(errand.twice)));
        let log = errand.log.clone();
        let held = Held::Frozen(frozen.clone(), errand);
        let sheet = Sheet::new(&frozen.planned, held, &self.workers, returns, &self.counters, log);
        self.work(sheet, cuts, &frozen.payload.blocks, leave)
    }

    /// The submissions of a batch.
    fn work(&self, sheet: Sheet, cuts: &[Cut], blocks: &[Option<Arc<Block>>], leave: Leave<'_>) -> Encoded {
        self.counters.bytes_written.add(sheet.bytes_written());
        let returning = sheet.returns().cloned().map(|readback| readback as Arc<dyn PendingReadback>);
        let sheet = Arc::new(sheet);
        let work = |number: usize, cut: &Cut| {
            let part = u32::try_from(number).unwrap_or(u32::MAX);
            Commands::Cpu(Work { sheet: sheet.clone(), cut: *cut, part })
        };
        let commands = cuts.split_last().map(|(last, before)| {
            before.iter().enumerate().for_each(|(number, cut)| leave(work(number, cut), blocks));
            work(before.len(), last)
        });
        Encoded { commands, returning }
    }
}
