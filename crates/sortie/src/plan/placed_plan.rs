//! A plan with memory and data, for a backend to interpret.

use std::sync::Arc;

use sortie_plan::{Cut, MemoryId, Plan, Port, SlotId, Step};

use super::{CachedPlan, Resources, RunArgs};
use crate::memory::Block;

/// A plan with memory and data.
#[derive(Clone, Copy)]
pub(crate) struct PlacedPlan<'a> {
    pub(crate) planned: &'a CachedPlan,
    /// Its submissions.
    pub(crate) cuts: &'a [Cut],
    /// Kernels and data.
    pub(crate) resources: &'a Resources,
    /// Memory of the slots, then scratch buffers of the plan, then parameters.
    pub(crate) blocks: &'a [Option<Arc<Block>>],
    /// The arguments of this run, if it is a run of a replay.
    pub(crate) run: Option<&'a RunArgs>,
}

impl<'a> PlacedPlan<'a> {
    pub(crate) fn plan(&self) -> &'a Plan {
        &self.planned.plan
    }

    /// Whether a step must run: zeroing is skipped for scratch memory that is fresh, and outputs that were not
    /// requested are not read.
    #[inline]
    pub(crate) fn wants(&self, step: Step) -> bool {
        match step {
            Step::Zero(id) => {
                let zero = &self.planned.plan[id];
                !zero.first || !self.block(zero.memory).fresh()
            }
            Step::Output(id) => self.reads(id.of(&self.planned.recording.outputs)),
            _ => true,
        }
    }

    fn reads(&self, port: Port) -> bool {
        self.run.is_some_and(|run_args| run_args.reads.contains(&port.start))
    }

    /// A piece of memory.
    #[inline]
    pub(crate) fn block(&self, memory: MemoryId) -> &'a Arc<Block> {
        self.blocks[memory.0 as usize].as_ref().unwrap_or_else(|| unreachable!("memory in use has a block"))
    }

    /// The memory that a slot lies on.
    #[inline]
    pub(crate) fn block_of(&self, slot: SlotId) -> &'a Arc<Block> {
        self.block(self.plan().memory_of(slot))
    }

    /// The memory of the parameters, if there are any.
    pub(crate) fn params(&self) -> Option<&'a Arc<Block>> {
        self.blocks.get(self.plan().params_memory().0 as usize).and_then(Option::as_ref)
    }

    /// Bytes that reads need in the readback buffer.
    pub(crate) fn read_bytes(&self) -> u64 {
        match self.run {
            None => self.resources.read_bytes,
            Some(run_args) if run_args.reads.is_empty() => 0,
            Some(_) => self.planned.recording.outputs.bytes(),
        }
    }

    /// Where the data of inputs starts in the upload buffer: after the data of writes and all hidden parameters.
    pub(crate) fn data_start(&self) -> u64 {
        (self.resources.uploads.len() as u64 + u64::from(self.plan().params_bytes)).next_multiple_of(8)
    }

    /// The data of inputs.
    pub(crate) fn data(&self) -> &'a [u8] {
        self.run.map_or(&[], |run_args| &run_args.data)
    }

    /// Inputs with data.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.planned.recording.inputs.iter().filter(|port| port.bytes > 0)
    }

    /// Outputs that this run reads.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        let this = *self;
        self.planned.recording.outputs.iter().filter(move |port| this.reads(**port))
    }
}
