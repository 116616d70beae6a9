//! Plans, found again by the fingerprint of the recording.
//!
//! The full recording and the capabilities that it was planned for are kept as the key and compared: a collision of fingerprints is harmless, and no plan
//! outlives a change of the capabilities, as [`Device::tune`](crate::Device::tune) makes one. A plan also keeps the bind groups of
//! its last run beside the buffers they were made for: one comparison replaces a look-up per op.
//!
//! Bound: [`MOST`] plans and [`MOST_OPS`] ops in all of them; past either the one not used for longest goes.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sortie_plan::{
    Caps, Lane, Op, OpKind, Plan, Recording, Span, Touch,
    fuse::{self, Lowered, Source},
};

use super::{Payload, groups::GroupRef, route::Routes};
use crate::{
    cpu::Native,
    device::Shared,
    error::{Error, Result},
    kernel::{GRID_BLOCK, Kernel},
    memory::BufferId,
    metrics::{Count, Counters},
};

/// Programs run a handful of batch shapes; a server with many sizes some dozens.
const MOST: usize = 128;
/// About 200 bytes an op: 200 MB at the very most.
const MOST_OPS: usize = 1 << 20;

/// A plan with all that is derived from it once.
#[derive(Debug)]
pub(crate) struct Planned {
    /// What runs: without tensor operations, but for those that the host computes without a kernel.
    pub(crate) recording: Recording,
    pub(crate) plan: Plan,
    /// What stands for tensor operations, if there are any.
    pub(crate) tensors: Option<Arc<Tensors>>,
    /// For each op that runs, the one that was recorded; empty where they are the same.
    origin: Vec<u32>,
    /// (kernel, wrapped): the pipelines it needs.
    pub(crate) variants: Vec<(u32, bool)>,
    pub(crate) touches: Arc<[Touch]>,
    /// Where it is cut, as it was last found out.
    pub(super) routes: Routes,
    /// Writes and reads that move something.
    pub(super) moved: [u64; 2],
    /// What it was planned for.
    pub(super) caps: Caps,
    /// The bind groups of the last run; taken out while a run uses them.
    pub(crate) resolved: Mutex<Resolved>,
}

/// Tensor operations as kernels.
#[derive(Debug)]
pub(crate) struct Tensors {
    /// The recording as it was recorded.
    key: Recording,
    /// What shares a kernel, by the op that it is called by.
    fused: FxHashMap<u32, Fused>,
    /// What ops of kind `Tensor` compute, by kernel; `None` for those that have become dispatches.
    natives: Vec<Option<Native>>,
    /// Where the scalars of such ops were recorded; `data` of the op is a part of this list.
    scalars: Vec<u32>,
    /// Follow those of the payload.
    kernels: Vec<Kernel>,
    /// Where the parameters of the kernels start in the arena of immediates, and their words.
    start: usize,
    words: Vec<Word>,
    /// Operations without a kernel of their own.
    pub(super) joined: u64,
}

/// What one kernel stands for.
#[derive(Debug)]
pub(crate) struct Fused {
    /// The ops that were recorded for it.
    pub(crate) ops: Vec<u32>,
    pub(crate) flops: u64,
}

/// A word of the parameters of a generated kernel.
#[derive(Clone, Copy, Debug)]
enum Word {
    Size(u32),
    /// A scalar, by where it was recorded.
    Scalar(u32),
}

/// Which buffers a run had, and the groups they gave, in encoding order.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) params: Option<BufferId>,
    /// Of each physical scratch buffer, so that the next run asks for the same ones.
    pub(crate) scratch: Vec<BufferId>,
    pub(crate) groups: Vec<GroupRef>,
}

#[derive(Debug)]
pub(crate) struct PlanCache {
    known: Mutex<Known>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Known {
    clock: u64,
    ops: usize,
    plans: FxHashMap<u64, Vec<(u64, Arc<Planned>)>>,
    count: usize,
}

impl PlanCache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { known: Mutex::default(), counters }
    }

    /// The plan of this recording for these capabilities, made if none is known.
    pub(crate) fn get(&self, shared: &Arc<Shared>, recording: &Recording, caps: &Caps) -> Result<Arc<Planned>> {
        let fingerprint = recording.fingerprint().0;
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let candidates = known.plans.get_mut(&fingerprint).into_iter().flatten();
        for (used, planned) in candidates {
            if planned.caps == *caps && planned.key().same_as(recording) {
                *used = now;
                self.counters.plan_hits.add(1);
                return Ok(planned.clone());
            }
        }
        drop(known);
        self.counters.plans_made.add(1);
        let _span = tracing::debug_span!(target: "sortie", "plan", ops = recording.ops.len()).entered();
        let planned = Arc::new(match recording.tensors.is_empty() {
            true => Planned::new(recording.clone(), None, Vec::new(), caps),
            false => Planned::lowered(shared, recording, caps)?,
        });
        self.known.lock().insert(fingerprint, planned.clone());
        Ok(planned)
    }
}

impl Known {
    fn insert(&mut self, fingerprint: u64, planned: Arc<Planned>) {
        self.clock += 1;
        self.ops += planned.recording.ops.len();
        self.count += 1;
        self.plans.entry(fingerprint).or_default().push((self.clock, planned));
        while self.count > MOST || (self.ops > MOST_OPS && self.count > 1) {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let all = self.plans.iter().flat_map(|(print, plans)| plans.iter().map(move |(used, _)| (*used, *print)));
        let Some((used, print)) = all.min() else { return };
        if let Some(plans) = self.plans.get_mut(&print) {
            if let Some(index) = plans.iter().position(|(at, _)| *at == used) {
                let (_, planned) = plans.swap_remove(index);
                self.ops -= planned.recording.ops.len();
                self.count -= 1;
            }
            if plans.is_empty() {
                self.plans.remove(&print);
            }
        }
    }
}

impl Planned {
    fn new(recording: Recording, tensors: Option<Arc<Tensors>>, origin: Vec<u32>, caps: &Caps) -> Self {
        let plan = sortie_plan::plan(&recording, caps);
        let mut variants: Vec<_> = recording
            .ops
            .iter()
            .filter(|op| matches!(op.kind, OpKind::Dispatch | OpKind::Fill) && op.lane == Lane::Compute)
            .map(|op| (op.kernel, op.params[1] > 0))
            .collect();
        variants.sort_unstable();
        variants.dedup();
        let touches = sortie_plan::touches(&recording, &plan).into();
        let moves = |kind| recording.ops.iter().filter(|op| op.kind == kind && op.accesses.len > 0).count() as u64;
        let moved = [moves(OpKind::Write), moves(OpKind::Read)];
        let (routes, resolved) = (Routes::default(), Mutex::default());
        Self { recording, plan, tensors, origin, variants, touches, routes, moved, caps: *caps, resolved }
    }

    /// The same with dispatches divided: their numbers, ascending, and how many pieces each becomes.
    pub(super) fn divided(&self, pieces: &[(u32, u32)]) -> Self {
        let (recording, mut origin) = sortie_plan::divide(&self.recording, pieces, GRID_BLOCK as u32);
        origin.iter_mut().for_each(|op| *op = self.origin(*op as usize) as u32);
        Self::new(recording, self.tensors.clone(), origin, &self.caps)
    }

    /// The plan of a recording with tensor operations: their kernels are generated and parsed.
    fn lowered(shared: &Arc<Shared>, recording: &Recording, caps: &Caps) -> Result<Self> {
        let Lowered { recording: mut lowered, origin, programs, members, scalars } = fuse::lower(recording, caps);
        let uses_arena = |op: &&Op| matches!(op.kind, OpKind::Dispatch | OpKind::Fill | OpKind::Tensor);
        let start = recording.ops.iter().filter(uses_arena).map(|op| op.data.range().end).max().unwrap_or(0);
        let mut tensors = Tensors {
            key: recording.clone(),
            fused: FxHashMap::default(),
            natives: Vec::new(),
            scalars,
            kernels: Vec::new(),
            start: start.next_multiple_of(4),
            words: Vec::new(),
            joined: joined(recording, &origin),
        };
        if caps.host {
            tensors.natives = programs.iter().map(Native::of).collect();
        }
        let mut members = members.into_iter();
        for (number, origin) in origin.iter().enumerate() {
            let op = lowered.ops[number];
            if op.kind == OpKind::Tensor {
                let fused =
                    Fused { ops: members.next().unwrap_or_default(), flops: programs[op.kernel as usize].flops() };
                tensors.fused.insert(*origin, fused);
                if let Some(Some(_)) = tensors.natives.get(op.kernel as usize) {
                    continue;
                }
                let source = programs[op.kernel as usize].source(caps);
                let kernel = shared.kernels().generated(&source.text)?;
                if kernel.num_bindings() != op.accesses.len as usize {
                    // A binding that a kernel does not use is none of its bindings.
                    return Err(Error::internal("a generated kernel does not use all of its memory; please report it"));
                }
                lowered.ops[number] = tensors.dispatch(shared, &mut lowered, op, &kernel, &source);
            }
        }
        Ok(Self::new(lowered, Some(Arc::new(tensors)), origin, caps))
    }

    /// What was recorded.
    pub(super) fn key(&self) -> &Recording {
        self.tensors.as_ref().map_or(&self.recording, |tensors| &tensors.key)
    }

    /// What was recorded, op by op.
    pub(super) fn recorded(&self) -> Vec<Op> {
        if let Some(tensors) = &self.tensors {
            return tensors.key.ops.clone();
        }
        // Of a divided dispatch every piece will do.
        let count = (0..self.recording.ops.len()).map(|op| self.origin(op) + 1).max().unwrap_or(0);
        let mut recorded = vec![Op::NOTHING; count];
        self.recording.ops.iter().enumerate().for_each(|(number, op)| recorded[self.origin(number)] = *op);
        recorded
    }

    /// The op that was recorded for one that runs.
    pub(crate) fn origin(&self, op: usize) -> usize {
        self.origin.get(op).map_or(op, |origin| *origin as usize)
    }

    /// What shares the kernel that is called by a recorded op.
    pub(super) fn fused(&self, origin: usize) -> Option<&Fused> {
        self.tensors.as_ref()?.fused.get(&u32::try_from(origin).ok()?)
    }

    /// Adds generated kernels and their parameters to what was recorded.
    pub(crate) fn complete(&self, payload: &mut Payload) {
        let Some(tensors) = &self.tensors else { return };
        payload.kernels.extend(tensors.kernels.iter().cloned());
        payload.immediates.resize(tensors.start, 0);
        for word in &tensors.words {
            let bytes = match word {
                Word::Size(size) => size.to_le_bytes(),
                Word::Scalar(at) => bytes_at(&payload.immediates, *at),
            };
            payload.immediates.extend_from_slice(&bytes);
        }
    }
}

/// Tensor operations that no op of the lowered recording is called by.
fn joined(recording: &Recording, origin: &[u32]) -> u64 {
    let is_tensor = |op: &u32| recording.ops[*op as usize].kind == OpKind::Tensor;
    let mut called: Vec<_> = origin.iter().copied().filter(is_tensor).collect();
    called.sort_unstable();
    called.dedup();
    let all = recording.ops.iter().filter(|op| op.kind == OpKind::Tensor).count();
    (all - called.len()) as u64
}

/// Four of the bytes given while recording.
fn bytes_at(immediates: &[u8], at: u32) -> [u8; 4] {
    std::array::from_fn(|byte| immediates[at as usize + byte])
}

impl Tensors {
    /// The kernels that were generated, and what is computed without one, by what ops name them by.
    pub(super) fn kernel(&self, index: usize) -> Option<&Kernel> {
        self.kernels.get(index)
    }

    /// How much an op of kind `Tensor` has to compute.
    pub(super) fn work(&self, op: &Op) -> u64 {
        match self.natives.get(op.kernel as usize) {
            Some(Some(native)) => native.work(),
            _ => 0,
        }
    }

    /// What an op of kind `Tensor` computes, and its scalars.
    pub(crate) fn native(&self, op: &Op, immediates: &[u8]) -> (&Native, SmallVec<[u32; 8]>) {
        let Some(Some(native)) = self.natives.get(op.kernel as usize) else {
            unreachable!("what is not native has become a dispatch")
        };
        let scalars = self.scalars[op.data.range()].iter();
        (native, scalars.map(|at| u32::from_le_bytes(bytes_at(immediates, *at))).collect())
    }

    /// The dispatch that runs a generated kernel.
    fn dispatch(&mut self, shared: &Shared, lowered: &mut Recording, op: Op, kernel: &Kernel, source: &Source) -> Op {
        let known = lowered.kernels.iter().position(|id| *id == kernel.id());
        let index = match known.and_then(|index| u32::try_from(index).ok()) {
            Some(index) => index,
            None => {
                self.kernels.push(kernel.clone());
                lowered.push_kernel(kernel.id())
            }
        };
        let first = self.start + self.words.len() * 4;
        self.words.extend(source.words.iter().map(|word| Word::Size(*word)));
        self.words.extend(self.scalars[op.data.range()].iter().map(|at| Word::Scalar(*at)));
        let folded = source.grid.iter().any(|groups| *groups > shared.limits().groups);
        Op {
            kind: OpKind::Dispatch,
            kernel: index,
            grid: source.grid,
            data: Span::new(first..self.start + self.words.len() * 4),
            params: [kernel.hidden_immediates(), if folded { GRID_BLOCK as u32 } else { 0 }],
            ..op
        }
    }
}
