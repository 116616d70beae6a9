//! Plans, found again by the fingerprint of the recording.
//!
//! The full recording and the capabilities that it was planned for are kept as the key and compared: a collision of fingerprints is harmless, and no plan
//! outlives a change of the capabilities, as [`Device::tune`](crate::Device::tune) makes one.
//!
//! Bound: [`MOST`] plans and [`MOST_BYTES`] in all of them; past either the one not used for longest goes.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sortie_plan::{Caps, Recording};

use super::{CachedPlan, cached_plan::Generate};
use crate::{
    error::Result,
    metrics::{AtomicCounter, Counters},
};

/// Programs run a handful of batch shapes; a server with many sizes some dozens.
const MOST: usize = 128;
/// Recordings and their steps take about 200 bytes an op: a million ops.
const MOST_BYTES: usize = 200 << 20;

#[derive(Debug)]
pub(crate) struct PlanCache {
    known: Mutex<Known>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Known {
    clock: u64,
    /// Of all plans.
    bytes: usize,
    plans: FxHashMap<u64, Vec<(u64, Arc<CachedPlan>)>>,
    count: usize,
}

impl PlanCache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { known: Mutex::default(), counters }
    }

    /// The plan of this recording for these capabilities, made if none is known.
    pub(crate) fn get(&self, recording: &Recording, caps: &Caps, generate: Generate<'_>) -> Result<Arc<CachedPlan>> {
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
            true => CachedPlan::new(recording.clone(), None, Vec::new(), caps),
            false => CachedPlan::lowered(recording, caps, generate)?,
        });
        self.known.lock().insert(fingerprint, planned.clone());
        Ok(planned)
    }
}

impl Known {
    fn insert(&mut self, fingerprint: u64, planned: Arc<CachedPlan>) {
        self.clock += 1;
        self.bytes += planned.bytes();
        self.count += 1;
        self.plans.entry(fingerprint).or_default().push((self.clock, planned));
        while self.count > MOST || (self.bytes > MOST_BYTES && self.count > 1) {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let all = self.plans.iter().flat_map(|(print, plans)| plans.iter().map(move |(used, _)| (*used, *print)));
        let Some((used, print)) = all.min() else { return };
        if let Some(plans) = self.plans.get_mut(&print) {
            if let Some(index) = plans.iter().position(|(at, _)| *at == used) {
                let (_, planned) = plans.swap_remove(index);
                self.bytes -= planned.bytes();
                self.count -= 1;
            }
            if plans.is_empty() {
                self.plans.remove(&print);
            }
        }
    }
}
