//! A cache of plans, looked up by the fingerprint of the recording.
//!
//! Each entry keeps its full recording and capabilities as the key and compares them. So a fingerprint collision is
//! harmless, and no plan is used after the capabilities change ([`Device::tune`](crate::Device::tune) changes them).
//!
//! Bound: [`MOST`] plans and [`MOST_BYTES`] in total. Past either, the least recently used plan is evicted.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sortie_plan::{Caps, Recording};

use super::{CachedPlan, cached_plan::Generate};
use crate::{
    error::Result,
    metrics::{AtomicCounter, Counters},
};

/// Programs run a handful of batch shapes; a server with many sizes runs some dozens.
const MOST: usize = 128;
/// Recordings and their steps take about 200 bytes per op, so this is a million ops.
const MOST_BYTES: usize = 200 << 20;

#[derive(Debug)]
pub(crate) struct PlanCache {
    known: Mutex<Known>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Known {
    clock: u64,
    /// Bytes of all plans.
    bytes: usize,
    plans: FxHashMap<u64, Vec<(u64, Arc<CachedPlan>)>>,
    count: usize,
}

impl PlanCache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { known: Mutex::default(), counters }
    }

    /// The plan of this recording for these capabilities; made if it is not cached.
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
