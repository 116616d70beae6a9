//! A plan with all that its runs need, and one run of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use sortie_plan::{Part, Rule, SlotId, Touch};

use super::{
    Payload, Route,
    plans::{Planned, Resolved},
    vulkan::Secondary,
};
use crate::{device::Shared, error::Result, memory::Block, profile::Log};

/// A planned recording that keeps its memory: every run uses the same, one after the other.
///
/// It does not change. A native one that is recorded anew is another, with the same ports and buffers; runs under way keep the one they began with.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The plan without divided dispatches.
    base: Arc<Planned>,
    /// The plan that runs.
    pub(crate) planned: Arc<Planned>,
    /// Where it is cut, if it is native.
    route: Arc<Route>,
    /// Complete, with a block for every slot in use.
    pub(crate) payload: Arc<Payload>,
    /// Scratch memory by physical id. None of it counts as fresh: a run finds what the last one left.
    pub(crate) physical: Vec<Arc<Block>>,
    pub(crate) params: Option<Arc<Block>>,
    pub(crate) inputs: Arc<Ports>,
    pub(crate) outputs: Arc<Ports>,
    /// How the recording uses what is there before and after it. Inputs are neither: every run brings them.
    pub(crate) touches: Arc<[Touch]>,
    /// The same as Vulkan has it, where it can be.
    pub(super) native: Option<Secondary>,
    /// Buffers that their owner may destroy.
    pub(super) imported: Vec<Arc<Block>>,
    /// Taken out while a run uses it.
    pub(super) resolved: Mutex<Resolved>,
    /// The version of the costs that its cuts were last compared with.
    compared: AtomicU64,
    /// Whether a submission has taken longer than its budget.
    overran: AtomicBool,
    /// Native runs so far.
    runs: AtomicU64,
    /// Whether a native run is done.
    ran: AtomicBool,
}

/// How the cuts of a native recording compare with those that the estimates ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Good,
    /// It is cut into more submissions than it needs.
    TooMany,
    /// A submission would take longer than its budget.
    TooFew,
}

impl Frozen {
    /// What the runs of `base` need, cut by `route`, which is of that plan.
    pub(crate) fn new(
        base: Arc<Planned>,
        route: Arc<Route>,
        payload: Payload,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
        [inputs, outputs]: [Ports; 2],
    ) -> Self {
        let imported = payload.blocks.iter().flatten().filter(|block| block.is_imported()).cloned().collect();
        let ports = [Arc::new(inputs), Arc::new(outputs)];
        Self::of(base, route, Arc::new(payload), physical, params, ports, imported)
    }

    fn of(
        base: Arc<Planned>,
        route: Arc<Route>,
        payload: Arc<Payload>,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
        [inputs, outputs]: [Arc<Ports>; 2],
        imported: Vec<Arc<Block>>,
    ) -> Self {
        let planned = route.planned(&base).clone();
        let brought = |touch: &&Touch| inputs.iter().any(|port| port.slot == touch.slot);
        let touches = planned.touches.iter().filter(|touch| !brought(touch)).copied().collect();
        Self {
            base,
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
            compared: AtomicU64::new(u64::MAX),
            overran: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            ran: AtomicBool::new(false),
        }
    }

    /// The same with other cuts: another route of the plan that runs.
    pub(super) fn cut_by(&self, route: Arc<Route>) -> Self {
        let (payload, physical, params) = (self.payload.clone(), self.physical.clone(), self.params.clone());
        self.again(route, payload, physical, params)
    }

    /// The same with another plan, which divides other dispatches and has scratch memory and parameters of its own.
    pub(super) fn planned_by(
        &self,
        route: Arc<Route>,
        payload: Payload,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
    ) -> Self {
        self.again(route, Arc::new(payload), physical, params)
    }

    fn again(
        &self,
        route: Arc<Route>,
        payload: Arc<Payload>,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
    ) -> Self {
        let ports = [self.inputs.clone(), self.outputs.clone()];
        Self::of(self.base.clone(), route, payload, physical, params, ports, self.imported.clone())
    }

    /// The plan that a route of it, as [`Frozen::wanted`] gives it, runs.
    pub(super) fn planned_of(&self, route: &Route) -> Arc<Planned> {
        route.planned(&self.base).clone()
    }

    /// Whether the device has a recording of it.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Where the device's recording is cut.
    pub(crate) fn recorded_route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Where an encoded run is cut.
    pub(crate) fn encoded_route(&self, shared: &Shared, rule: Rule) -> Arc<Route> {
        self.planned.route(shared, &self.payload, rule, false)
    }

    /// Where the device's recording would be cut, were it made now.
    pub(crate) fn wanted(&self, shared: &Shared, rule: Rule) -> Arc<Route> {
        self.base.route(shared, &self.payload, rule, true)
    }

    /// Whether the cuts of the device's recording suit what is known of costs. They do not when their number is more than twice, or less than half, of what the
    /// estimates ask for; or when a submission has exceeded its budget, and the estimates ask for more.
    ///
    /// Asked before each run. Costs next to nothing while the estimates stay as they are.
    pub(crate) fn fit(&self, shared: &Shared, rule: Rule) -> Fit {
        let Rule::Within(_) = rule else { return Fit::Good };
        let (runs, version) = (self.runs.fetch_add(1, Ordering::Relaxed), shared.costs().version());
        // Estimates may also drift, too little at a time for another version.
        if !runs.is_power_of_two() && self.compared.load(Ordering::Relaxed) == version {
            return Fit::Good;
        }
        let (have, want) = (self.route.cuts(), self.wanted(shared, rule).cuts());
        let far = have.max(want) > 2 * have.min(want);
        if want < have && far {
            return Fit::TooMany;
        }
        if want > have && (far || self.overran.load(Ordering::Relaxed)) {
            return Fit::TooFew;
        }
        self.compared.store(version, Ordering::Relaxed);
        Fit::Good
    }

    /// A submission has taken longer than its budget.
    pub(crate) fn set_overran(&self) {
        self.overran.store(true, Ordering::Relaxed);
    }

    /// Pipelines that have run for the first time when a submission of a native run is done, the last one or not. A replay has pipelines of its own.
    pub(crate) fn first_runs(&self, last: bool) -> usize {
        if self.ran.load(Ordering::Relaxed) {
            return 0;
        }
        self.ran.store(last, Ordering::Relaxed);
        self.planned.variants.len()
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
            payload.blocks[port.slot.0 as usize] = Some(Block::owned(shared.pool().clone(), raw, port.bytes));
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
