//! A plan with all that its runs need, and one run of it.

use std::sync::Arc;

use parking_lot::Mutex;
use sortie_plan::{Part, Rule, SlotId, Touch};

use super::{
    Payload, Route,
    plans::{Planned, Resolved},
    vulkan::Secondary,
};
use crate::{device::Shared, error::Result, memory::Block, profile::Log};

/// A planned recording that keeps its memory: every run uses the same, one after the other.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) planned: Arc<Planned>,
    /// As it was when it was frozen.
    route: Arc<Route>,
    /// Complete, with a block for every slot in use.
    pub(crate) payload: Payload,
    /// Scratch memory by physical id. None of it counts as fresh: a run finds what the last one left.
    pub(crate) physical: Vec<Arc<Block>>,
    pub(crate) params: Option<Arc<Block>>,
    pub(crate) inputs: Ports,
    pub(crate) outputs: Ports,
    /// How the recording uses what is there before and after it. Inputs are neither: every run brings them.
    pub(crate) touches: Arc<[Touch]>,
    /// The same as Vulkan has it, where it can be.
    pub(super) native: Option<Secondary>,
    /// Buffers that their owner may destroy.
    pub(super) imported: Vec<Arc<Block>>,
    /// Taken out while a run uses it.
    pub(super) resolved: Mutex<Resolved>,
}

impl Frozen {
    pub(crate) fn new(
        planned: Arc<Planned>,
        route: Arc<Route>,
        payload: Payload,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
        [inputs, outputs]: [Ports; 2],
    ) -> Self {
        let brought = |touch: &&Touch| inputs.iter().any(|port| port.slot == touch.slot);
        let touches = planned.touches.iter().filter(|touch| !brought(touch)).copied().collect();
        let imported = payload.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        Self {
            planned,
            route,
            payload,
            physical,
            params,
            inputs,
            outputs,
            touches,
            native: None,
            imported,
            resolved: Mutex::default(),
        }
    }

    /// Where a run is cut. One that is recorded for the device stays as it was recorded.
    pub(crate) fn route(&self, shared: &Shared, rule: Rule, native: bool) -> Arc<Route> {
        match self.native {
            Some(_) if native => self.route.clone(),
            _ => self.planned.route(shared, &self.payload, rule, false),
        }
    }

    /// The parts that it was recorded for the device in.
    pub(super) fn parts(&self) -> &[Part] {
        &self.route.parts
    }

    /// Everything that a run must keep alive, by slot and then the rest.
    pub(crate) fn pins(&self) -> impl Iterator<Item = Option<Arc<Block>>> + '_ {
        self.payload.blocks.iter().cloned().chain(self.params.clone().map(Some))
    }
}

/// What runs bring, or may read: memory that a replay keeps, and where its data lies among those of a run.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ports: Vec<Port>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) slot: SlotId,
    pub(crate) start: u64,
    /// Whole words.
    pub(crate) bytes: u64,
}

impl Ports {
    /// One more. Returns where its data lies.
    pub(crate) fn push(&mut self, slot: SlotId, bytes: u64) -> u64 {
        // Mapped ranges start at multiples of 8.
        let start = self.bytes.next_multiple_of(8);
        let bytes = bytes.next_multiple_of(4);
        self.ports.push(Port { slot, start, bytes });
        self.bytes = start + bytes;
        start
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Port> {
        self.ports.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Bytes of all data.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.ports.clear();
        self.bytes = 0;
    }

    /// Gives them memory.
    pub(super) fn place(&self, shared: &Arc<Shared>, payload: &mut Payload) -> Result<()> {
        for port in &self.ports {
            let raw = shared.take_memory(port.bytes.max(4), None)?;
            payload.blocks[port.slot.0 as usize] = Some(Block::owned(shared.clone(), raw, port.bytes));
        }
        Ok(())
    }
}

/// What one run brings, and asks for.
#[derive(Debug, Default)]
pub(crate) struct Errand {
    /// The data of all inputs.
    pub(crate) data: Vec<u8>,
    /// Which outputs somebody asked for, by where their data will be.
    pub(crate) reads: Vec<u64>,
    /// One of them was asked for more than once.
    pub(crate) twice: bool,
    /// Not to be done by the device's own recording.
    pub(crate) encoded: bool,
    /// Where somebody wants to know what it takes.
    pub(crate) log: Option<Arc<Log>>,
}

/// A plan that has been given memory and data.
#[derive(Clone, Copy)]
pub(super) struct Laid<'a> {
    pub(super) planned: &'a Planned,
    /// Its submissions.
    pub(super) parts: &'a [Part],
    pub(super) payload: &'a Payload,
    /// Scratch memory by physical id.
    pub(super) physical: &'a [Arc<Block>],
    pub(super) params: Option<&'a Block>,
    /// Of a run of a replay.
    pub(super) run: Option<(&'a Frozen, &'a Errand)>,
}

impl<'a> Laid<'a> {
    /// Room that reads need.
    pub(super) fn read_bytes(&self) -> u64 {
        match self.run {
            None => self.payload.read_bytes,
            Some((_, errand)) if errand.reads.is_empty() => 0,
            Some((frozen, _)) => frozen.outputs.bytes(),
        }
    }

    /// How many commands it takes at most.
    pub(super) fn commands(&self) -> usize {
        let plan = &self.planned.plan;
        // Parameters are one.
        plan.order.len() + plan.clears.len() + self.inputs().count() + self.outputs().count() + 1
    }

    /// Where the data of inputs lies in the upload buffer: behind those of writes and all hidden parameters.
    pub(super) fn data_start(&self) -> u64 {
        (self.payload.uploads.len() as u64 + u64::from(self.planned.plan.params_bytes)).next_multiple_of(8)
    }

    /// The data of inputs.
    pub(super) fn data(&self) -> &'a [u8] {
        self.run.map_or(&[], |(_, errand)| &errand.data)
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.run.into_iter().flat_map(|(frozen, _)| frozen.inputs.iter().filter(|port| port.bytes > 0))
    }

    /// Those that somebody asked for.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        let wanted = |(frozen, errand): (&'a Frozen, &'a Errand)| {
            frozen.outputs.iter().filter(|port| errand.reads.contains(&port.start))
        };
        self.run.into_iter().flat_map(wanted)
    }
}
