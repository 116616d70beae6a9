//! Plans, found again by the fingerprint of the recording.
//!
//! The full recording is kept as the key and compared, so a collision of fingerprints is harmless. A plan also keeps the bind groups of
//! its last run beside the buffers they were made for: one comparison replaces a look-up per op.
//!
//! Bound: [`MOST`] plans and [`MOST_OPS`] ops in all of them; past either the one not used for longest goes.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sortie_plan::{Caps, Lane, OpKind, Plan, Recording, Touch};

use super::groups::GroupRef;
use crate::{
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
    pub(crate) recording: Recording,
    pub(crate) plan: Plan,
    /// (kernel, wrapped): the pipelines it needs.
    pub(crate) variants: Vec<(u32, bool)>,
    pub(crate) touches: Arc<[Touch]>,
    /// The bind groups of the last run; taken out while a run uses them.
    pub(crate) resolved: Mutex<Resolved>,
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

    /// The plan of this recording, made if none is known.
    pub(crate) fn get(&self, recording: &Recording, caps: &Caps) -> Arc<Planned> {
        let fingerprint = recording.fingerprint().0;
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let candidates = known.plans.get_mut(&fingerprint).into_iter().flatten();
        for (used, planned) in candidates {
            if planned.recording.same_as(recording) {
                *used = now;
                self.counters.plan_hits.add(1);
                return planned.clone();
            }
        }
        drop(known);
        self.counters.plans_made.add(1);
        let planned = Arc::new(Planned::new(recording.clone(), caps));
        self.known.lock().insert(fingerprint, planned.clone());
        planned
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
    fn new(recording: Recording, caps: &Caps) -> Self {
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
        Self { recording, plan, variants, touches, resolved: Mutex::default() }
    }
}
