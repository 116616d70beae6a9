//! A cache of plans, looked up by the fingerprint of the recording.
//!
//! Each entry keeps its full recording and capabilities as the key and compares them. So a fingerprint collision is
//! harmless, and no plan is used after the capabilities change ([`Device::tune`](crate::Device::tune) changes them).
//!
//! Bound: [`MAX_PLANS`] plans and [`MAX_BYTES`] in total. Past either, the least recently used plan is evicted. Of two
//! recordings with one fingerprint the later one is kept.

use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use sortie_plan::{Caps, Recording};

use super::{CachedPlan, KnownBatch, cached_plan::Generate};
use crate::{
    error::Result,
    metrics::{AtomicCounter, Counters},
};

/// Programs run a handful of batch shapes; a server with many sizes runs some dozens.
const MAX_PLANS: usize = 128;
/// Recordings and their steps take about 200 bytes per op, so this is a million ops.
const MAX_BYTES: usize = 200 << 20;

#[derive(Debug)]
pub(crate) struct PlanCache {
    plans: Mutex<Plans>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Plans {
    by_fingerprint: LruCache<u64, Arc<KnownBatch>, FxBuildHasher>,
    /// Bytes of all plans.
    bytes: usize,
}

impl PlanCache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        let by_fingerprint = LruCache::unbounded_with_hasher(FxBuildHasher);
        Self { plans: Mutex::new(Plans { by_fingerprint, bytes: 0 }), counters }
    }

    /// The plan of this recording for these capabilities; made if it is not cached.
    pub(crate) fn get(&self, recording: &Recording, caps: &Caps, generate: Generate<'_>) -> Result<Arc<KnownBatch>> {
        let fingerprint = recording.fingerprint().0;
        if let Some(known) = self.plans.lock().by_fingerprint.get(&fingerprint)
            && known.plan.caps == *caps
            && known.plan.key().same_as(recording)
        {
            self.counters.plan_hits.add(1);
            return Ok(known.clone());
        }
        self.counters.plans_made.add(1);
        let _span = tracing::debug_span!(target: "sortie", "plan", ops = recording.ops.len()).entered();
        let known = Arc::new(KnownBatch::new(match recording.tensors.is_empty() {
            true => CachedPlan::new(recording.clone(), None, Vec::new(), caps),
            false => CachedPlan::lowered(recording, caps, generate)?,
        }));
        // Bound to a name, so that it is dropped after the lock is released.
        let gone = self.plans.lock().insert(fingerprint, known.clone());
        drop(gone);
        Ok(known)
    }
}

impl Plans {
    /// Returns what it replaced or evicted.
    fn insert(&mut self, fingerprint: u64, known: Arc<KnownBatch>) -> Vec<Arc<KnownBatch>> {
        self.bytes += known.plan.bytes();
        let mut gone: Vec<_> = self.by_fingerprint.put(fingerprint, known).into_iter().collect();
        self.bytes -= gone.iter().map(|replaced| replaced.plan.bytes()).sum::<usize>();
        while self.by_fingerprint.len() > MAX_PLANS || (self.bytes > MAX_BYTES && self.by_fingerprint.len() > 1) {
            let Some((_, evicted)) = self.by_fingerprint.pop_lru() else { break };
            self.bytes -= evicted.plan.bytes();
            gone.push(evicted);
        }
        gone
    }
}
