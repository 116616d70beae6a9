//! The built-in CPU: plans run by the host itself.
//!
//! A plan, with the payload of the batch, is already what the host can run: [`Work`] walks one submission of it. A second list of commands
//! would cost more to write than to run, so there is none, and encoding is a matter of a few pointers however long the batch is.
//!
//! Invariant: what runs has the turn of the submit line, so one submission runs at a time and nobody waits for memory.

mod chain;
mod dispatch;
mod fill;
mod memory;
mod native;
mod product;
mod work;
mod workers;

use std::sync::Arc;

pub(crate) use self::{native::Native, work::Work};
use self::{work::Sheet, workers::Workers};
use crate::{
    device::{DeviceOptions, Shared},
    encode::{Commands, Encoded, Payload, PlanCache, Planned},
    error::Result,
    kernel::KernelCache,
    memory::{Block, Returning, Returns},
    metrics::{Count, Counters},
};

/// The CPU's executor: what it keeps from batch to batch.
#[derive(Debug)]
pub(crate) struct Cpu {
    plans: PlanCache,
    kernels: KernelCache,
    workers: Arc<Workers>,
    counters: Arc<Counters>,
}

impl Cpu {
    pub(crate) fn new(options: &DeviceOptions, counters: Arc<Counters>) -> Result<Self> {
        Ok(Self {
            plans: PlanCache::new(counters.clone()),
            kernels: KernelCache::default(),
            workers: Arc::new(Workers::new(options)?),
            counters,
        })
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.count()
    }

    pub(crate) fn plans(&self) -> &PlanCache {
        &self.plans
    }

    pub(crate) fn kernels(&self) -> &KernelCache {
        &self.kernels
    }

    /// Takes what the work needs out of the payload, which is left as empty as a new one but for its blocks: those of its slots, then the
    /// scratch memory of the plan.
    pub(crate) fn encode(
        &self,
        shared: &Arc<Shared>,
        planned: &Arc<Planned>,
        payload: &mut Payload,
    ) -> Result<Encoded> {
        for bytes in &planned.plan.physical {
            let raw = shared.pool().take(*bytes, None)?;
            payload.blocks.push(Some(Block::owned(shared.clone(), raw, bytes.next_multiple_of(4))));
        }
        self.counters.bytes_written.add(payload.uploads.len() as u64);
        let returns = (payload.read_bytes > 0).then(Arc::<Returns>::default);
        let sheet = Arc::new(Sheet::new(planned, payload, &self.workers, returns.clone(), &self.counters));
        let parts = 0..planned.plan.submissions.len();
        let commands = parts.map(|part| Commands::Cpu(Work::new(sheet.clone(), part))).collect();
        Ok(Encoded { commands, returning: returns.map(Returning::Words) })
    }
}
