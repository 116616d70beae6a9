//! What submissions of a lost device may still use.
//!
//! Everyone who waits hears of a loss at once, but the driver may go on with what it was given: a destroyed device finishes its work. Freeing the buffers, pipelines or command buffers of that work
//! would corrupt memory. So they are kept here until the driver has reported completion, by a thread of their own. If it never does, they stay for good, and
//! `Metrics::retained_bytes` shows them.

use std::{sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::{Gpu, Timeline, wait_point::WaitPoint};
use crate::{exit, lost::Lost, metrics::Counters, submit::BatchState};

/// How long the thread waits before it looks whether the process exits.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Retained {
    pub(super) gpu: Gpu,
    pub(super) timeline: Option<Arc<Timeline>>,
    pub(super) lost: Arc<Lost>,
    pub(super) counters: Arc<Counters>,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    kept: Vec<(WaitPoint, Arc<BatchState>)>,
    /// There is a thread that waits for them.
    attended: bool,
}

impl Retained {
    /// Keeps what a submission uses until the driver is through with it. The device is lost.
    pub(super) fn keep(self: &Arc<Self>, point: WaitPoint, hold: Arc<BatchState>) {
        // Elsewhere there are no native replays, and wgpu keeps what it has submitted.
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
            // They stay for good.
            Err(error) => tracing::warn!(%error, "what a lost device may still use is never freed"),
        }
    }

    /// Frees what the driver is through with, until there is nothing left.
    fn wait(&self) {
        while let Some(first) = self.first() {
            if !first.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, SLICE) {
                if exit::exiting() {
                    // The process ends before the driver does: what it uses must not be freed.
                    std::mem::forget(std::mem::take(&mut self.state.lock().kept));
                    return;
                }
                continue;
            }
            let kept = std::mem::take(&mut self.state.lock().kept);
            let is_over =
                |point: &WaitPoint| point.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, Duration::ZERO);
            // Outside the lock: wgpu runs callbacks, and blocks go back to their pool, and with the last of them the device itself.
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
