//! The device's own recordings of a batch, one for each set of buffers that it is submitted with.
//!
//! A batch that names the same buffers for the third time is recorded for the device, in the background. From then on it
//! is submitted as that recording, and not encoded again. What may differ from run to run is the data of writes, and
//! immediates once they have been seen to differ.
//!
//! Invariant: wgpu knows the buffers of a recording, because an earlier run with the same ones was encoded and has
//! succeeded: wgpu zeroes memory that it has not seen written.
//!
//! Bound: [`MAX_RECORDINGS`] per plan; see also `device/recordings.rs`.

use std::{collections::VecDeque, sync::Arc};

use super::{CachedPlan, Cuts, FrozenPlan, Resources};
use crate::{
    finish::{Completion, sync::Mutex},
    memory::{Block, BufferId},
};

/// Double and triple buffering need two and three.
const MAX_RECORDINGS: usize = 8;
/// The run in which a set of buffers is recorded. Twice as late after each time that the cuts of a recording no longer
/// fitted the cost estimates.
const FIRST_THRESHOLD: u32 = 3;
const MAX_THRESHOLD: u32 = 1 << 16;

/// A plan, and the device's recordings of batches that have it.
#[derive(Debug)]
pub(crate) struct KnownBatch {
    pub(crate) plan: Arc<CachedPlan>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    recordings: Vec<RecordedBatch>,
    /// Sets of buffers without a recording, the latest last.
    sightings: VecDeque<Sighting>,
    /// Whether one is being recorded.
    pending: bool,
    /// The device cannot record it.
    unsupported: bool,
    /// The device cannot record it with immediates that differ from run to run.
    fixed_immediates: bool,
    threshold: u32,
}

/// A recording for one set of buffers.
#[derive(Debug)]
pub(crate) struct RecordedBatch {
    /// Those of the user, in the order of the slots.
    pub(crate) buffers: Box<[BufferId]>,
    /// The immediates that it has. `None`: each run brings its own.
    pub(crate) immediates: Option<Box<[u8]>>,
    /// The cuts that it was made with. Those of `frozen` count one step more if it takes immediates from each run.
    pub(crate) cuts: Arc<Cuts>,
    pub(crate) frozen: Arc<FrozenPlan>,
}

/// Runs with one set of buffers.
#[derive(Debug, Default)]
struct Sighting {
    buffers: Vec<BufferId>,
    runs: u32,
    /// Of the latest run.
    immediates: Vec<u8>,
    /// Whether they have differed between runs.
    changed: bool,
    /// Of a run that was encoded.
    encoded: Option<Arc<Completion>>,
}

/// A batch that is about to be launched.
#[derive(Clone, Copy)]
pub(crate) struct BatchRun<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) cuts: &'a Arc<Cuts>,
    pub(crate) completion: &'a Arc<Completion>,
}

/// What to do with a batch.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Submit the recording, which was made with these cuts.
    Found(Arc<FrozenPlan>, Arc<Cuts>),
    /// Encode it, and record it for the next runs. The caller must then call
    /// [`KnownBatch::recorded`], [`KnownBatch::refused`] or [`KnownBatch::gave_up`].
    Record { refreshes_params: bool },
    /// Encode it.
    Miss(Miss),
}

/// Why a batch is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// There is no recording with these buffers yet.
    Buffers,
    Immediates,
    /// The cost estimates call for other submissions.
    Cuts,
    /// The device cannot record it.
    Unsupported,
}

impl KnownBatch {
    pub(crate) fn new(plan: CachedPlan) -> Self {
        let state = State { threshold: FIRST_THRESHOLD, ..State::default() };
        Self { plan: Arc::new(plan), state: Mutex::new(state) }
    }

    /// Finds the recording of a batch with this plan. Allocates nothing for buffers that were seen before.
    pub(crate) fn look_up(&self, run: BatchRun<'_>) -> Lookup {
        let mut gone = None;
        // Bound to a name, so that what is removed is dropped after the lock is released.
        let found = self.state.lock().look_up(run, &mut gone);
        drop(gone);
        found
    }

    /// Ends what [`Lookup::Record`] began, with a recording.
    pub(crate) fn recorded(&self, recorded: RecordedBatch) {
        let mut state = self.state.lock();
        state.pending = false;
        // Bound to a name, so that it is dropped after the lock is released.
        let gone = state.insert(recorded);
        drop(state);
        drop(gone);
    }

    /// Ends what [`Lookup::Record`] began: the device cannot record it.
    pub(crate) fn refused(&self, refreshes_params: bool) {
        let mut state = self.state.lock();
        state.pending = false;
        match refreshes_params {
            true => state.fixed_immediates = true,
            false => state.unsupported = true,
        }
    }

    /// Recording was given up for now, because the device is lost or closing.
    pub(crate) fn gave_up(&self) {
        self.state.lock().pending = false;
    }

    /// Drops a recording. Runs in flight keep it.
    pub(crate) fn forget(&self, frozen: &Arc<FrozenPlan>) {
        let mut state = self.state.lock();
        let at = state.recordings.iter().position(|recorded| Arc::ptr_eq(&recorded.frozen, frozen));
        let gone = at.map(|at| state.recordings.swap_remove(at));
        drop(state);
        drop(gone);
    }
}

impl State {
    fn look_up(&mut self, run: BatchRun<'_>, gone: &mut Option<RecordedBatch>) -> Lookup {
        if self.unsupported {
            return Lookup::Miss(Miss::Unsupported);
        }
        let BatchRun { resources, cuts, .. } = run;
        let Some(at) = self.recordings.iter().position(|recorded| same(&recorded.buffers, &resources.blocks)) else {
            return self.see(run);
        };
        let recorded = &self.recordings[at];
        if !recorded.serves(cuts) {
            *gone = Some(self.recordings.swap_remove(at));
            self.threshold = (2 * self.threshold).min(MAX_THRESHOLD);
            return Lookup::Miss(Miss::Cuts);
        }
        match &recorded.immediates {
            Some(immediates) if **immediates != *resources.immediates => {
                if self.fixed_immediates || std::mem::replace(&mut self.pending, true) {
                    return Lookup::Miss(Miss::Immediates);
                }
                Lookup::Record { refreshes_params: true }
            }
            _ => Lookup::Found(recorded.frozen.clone(), recorded.cuts.clone()),
        }
    }

    /// Counts a run with buffers that have no recording.
    fn see(&mut self, BatchRun { resources, completion, .. }: BatchRun<'_>) -> Lookup {
        let known = self.sightings.iter().position(|sighting| same(&sighting.buffers, &resources.blocks));
        let mut sighting = match known {
            Some(at) => self.sightings.remove(at).unwrap_or_default(),
            None => {
                let spare = if self.sightings.len() == MAX_RECORDINGS { self.sightings.pop_front() } else { None };
                let mut new = Sighting { runs: 0, changed: false, encoded: None, ..spare.unwrap_or_default() };
                new.buffers.clear();
                new.buffers.extend(resources.blocks.iter().flatten().map(|block| block.id()));
                new
            }
        };
        sighting.runs = sighting.runs.saturating_add(1);
        sighting.changed |= sighting.runs > 1 && sighting.immediates != resources.immediates;
        sighting.immediates.clone_from(&resources.immediates);
        if sighting.changed && self.fixed_immediates {
            self.sightings.push_back(sighting);
            return Lookup::Miss(Miss::Unsupported);
        }
        let due = sighting.runs >= self.threshold && sighting.encoded.as_ref().is_some_and(|run| run.succeeded());
        if due && !std::mem::replace(&mut self.pending, true) {
            return Lookup::Record { refreshes_params: sighting.changed };
        }
        if sighting.encoded.as_ref().is_none_or(|run| run.is_done() && !run.succeeded()) {
            sighting.encoded = Some(completion.clone());
        }
        self.sightings.push_back(sighting);
        Lookup::Miss(Miss::Buffers)
    }

    /// Adds a recording, in the place of one for the same buffers, or else of the one that was used least recently if
    /// there are too many.
    fn insert(&mut self, recorded: RecordedBatch) -> Option<RecordedBatch> {
        let same = self.recordings.iter().position(|other| other.buffers == recorded.buffers);
        let oldest = || (0..self.recordings.len()).min_by_key(|at| self.recordings[*at].frozen.last_used());
        let replaced = same.or_else(|| if self.recordings.len() < MAX_RECORDINGS { None } else { oldest() });
        let gone = replaced.map(|at| self.recordings.swap_remove(at));
        self.recordings.push(recorded);
        gone
    }
}

impl RecordedBatch {
    /// Whether it can be submitted where the policy calls for `wanted`: it has the same cuts, or they fit the budget.
    fn serves(&self, wanted: &Arc<Cuts>) -> bool {
        Arc::ptr_eq(&self.cuts, wanted) || self.cuts.list == wanted.list || self.frozen.fits_budget_of(wanted)
    }
}

/// Whether a batch uses these buffers.
fn same(buffers: &[BufferId], blocks: &[Option<Arc<Block>>]) -> bool {
    let mut blocks = blocks.iter().flatten();
    buffers.iter().all(|buffer| blocks.next().is_some_and(|block| block.id() == *buffer)) && blocks.next().is_none()
}
