//! Keeps resources that submissions of a lost device may still use.
//!
//! Tickets and readings report a loss at once, but the driver may continue its work: a destroyed device finishes it.
//! Freeing the buffers, pipelines or command buffers of that work would corrupt memory. So they are kept here, and a
//! separate thread frees them when the driver has reported completion. If it never does, they are never freed, and
//! `Metrics::retained_bytes` shows them.

use std::{sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::{Gpu, Timeline, wait_point::WaitPoint};
use crate::{exit, lost::Lost, metrics::Counters, submit::BatchState};

/// How long the thread waits before it checks whether the process exits.
const SLICE: Duration = Duration::from_millis(100);

pub(super) struct Retained {
    pub(super) gpu: Gpu,
    pub(super) timeline: Option<Arc<Timeline>>,
    pub(super) lost: Arc<Lost>,
    pub(super) counters: Arc<Counters>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    kept: Vec<(WaitPoint, Arc<BatchState>)>,
    /// Whether a thread waits for them.
    attended: bool,
}

impl Retained {
    /// Keeps the resources of a submission until the driver has finished it. The device is lost.
    pub(super) fn keep(self: &Arc<Self>, point: WaitPoint, hold: Arc<BatchState>) {
        // Without a timeline there are no native replays, and wgpu itself keeps the resources of its submissions.
        if self.timeline.is_none() || point.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, Duration::ZERO) {
            return;
        }
        let mut state = self.state.lock();
        state.kept.push((point, hold));
        let attended = std::mem::replace(&mut state.attended, true);
        self.count(&state);
        drop(state);
        if attended {
            return;
        }
        let retained = self.clone();
        let thread = thread::Builder::new().name("sortie-retain".into()).spawn(move || {
            exit::begin_exempt();
            retained.wait();
        });
        match thread {
            Ok(thread) => exit::register_ending(thread),
            // They are never freed.
            Err(error) => tracing::warn!(%error, "what a lost device may still use is never freed"),
        }
    }

    /// Frees resources as the driver finishes with them, until none are left.
    fn wait(&self) {
        while let Some(first) = self.first() {
            if !first.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, SLICE) {
                if exit::exiting() {
                    // The process exits before the driver has finished: the resources must not be freed.
                    std::mem::forget(std::mem::take(&mut self.state.lock().kept));
                    return;
                }
                continue;
            }
            let kept = std::mem::take(&mut self.state.lock().kept);
            let is_over =
                |point: &WaitPoint| point.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, Duration::ZERO);
            // Outside the lock: wgpu runs callbacks, blocks return to their pool, and the last one may drop the device.
            let (over, pending): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(point, _)| is_over(point));
            let mut state = self.state.lock();
            state.kept.splice(..0, pending);
            self.count(&state);
            drop(state);
            drop(over);
        }
    }

    fn first(&self) -> Option<WaitPoint> {
        let mut state = self.state.lock();
        let first = state.kept.first().map(|(point, _)| point.clone());
        state.attended = first.is_some();
        first
    }

    fn count(&self, state: &State) {
        let mut seen = FxHashSet::default();
        let blocks = state.kept.iter().flat_map(|(_, hold)| hold.blocks().iter().flatten());
        let bytes = blocks.filter(|block| seen.insert(block.id())).map(|block| block.bytes()).sum();
        self.counters.retained_bytes.store(bytes, std::sync::atomic::Ordering::Relaxed);
    }
}
