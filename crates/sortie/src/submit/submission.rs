//! One submission: its commands, and everything that must stay alive until they are done.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use sortie_plan::{SlotId, Touch};

use crate::{
    clock::{Instant, Moment},
    error::{CallSite, Error, ErrorKind, Result},
    finish::{BatchReadback, Completion, PendingReadback, Wakers, canceled},
    memory::{Block, MAX_SPARE_OPS, Sequence, Spares},
    plan::FrozenPlan,
    policy::WorkEstimate,
    profile::{Log, Profile, StageKind, WatcherList},
};

/// One submission with its commands `C`, not submitted yet.
pub(crate) struct ReadySubmission<C> {
    pub(crate) commands: C,
    pub(crate) submission: Submission,
}

/// One submission of a batch without its commands. A split batch has several.
pub(crate) struct Submission {
    /// Its index among the submissions of its batch.
    pub(crate) part: u32,
    /// Index of the section between explicit splits of the batch that it belongs to.
    pub(crate) section: u32,
    /// Whether it is the last of its batch: the batch is done when it is.
    pub(crate) last: bool,
    pub(crate) batch: Arc<BatchState>,
    /// Estimate of its work, to learn costs from.
    pub(crate) estimate: Option<Arc<WorkEstimate>>,
    /// Whether it uses the pipelines of a native replay. Set when it is submitted.
    pub(crate) native: bool,
    /// The time that it was cut to stay under.
    pub(crate) budget: Option<Duration>,
    /// When it was submitted.
    pub(crate) submitted_at: Option<Moment>,
    /// Its number in the order in which submissions and writes reach the device. Set when its turn comes.
    pub(crate) order: u64,
}

/// State that all submissions of a batch share and keep alive until the last one is done.
pub(crate) struct BatchState {
    pub(crate) completion: Arc<Completion>,
    pub(crate) pins: Pins,
    pub(crate) touches: Arc<[Touch]>,
    /// The source line that submitted it.
    at: CallSite,
    /// Orders batches and writes by when they were handed over.
    sequence: Sequence,
    /// Its pending readback, and where its readings get the data. Set before the last submission is submitted.
    readback: OnceLock<(Arc<dyn PendingReadback>, Arc<BatchReadback>)>,
    /// The device's own recording that this is a run of. A replay keeps its blocks alive, so none are pinned.
    pub(crate) keeps: Option<Arc<FrozenPlan>>,
    /// Memory of the run of a native recording, which the device may use until the batch is done.
    run_memory: OnceLock<Arc<dyn PendingReadback>>,
    /// Profile log and watchers, if the batch is profiled.
    pub(crate) logged: Option<ProfiledBatch>,
    /// The batch has succeeded; its completion is set next.
    ended: AtomicBool,
}

/// The profile log of a batch, and the watchers that get its profile.
pub(crate) struct ProfiledBatch {
    pub(crate) log: Arc<Log>,
    readback_slot: Arc<BatchReadback>,
    /// Dropped when the batch is done: they wait for that.
    watchers: Mutex<WatcherList>,
}

impl ProfiledBatch {
    pub(crate) fn new(log: Arc<Log>, readback_slot: Arc<BatchReadback>, watchers: WatcherList) -> Self {
        Self { log, readback_slot, watchers: Mutex::new(watchers) }
    }

    /// Gives the profile to the watchers. The batch must be done.
    fn notify(&self) {
        let watchers = self.take_watchers();
        if watchers.is_empty() {
            return;
        }
        // Copied: a queued profile must not keep the whole readback alive.
        let (log, stamps) = (self.log.clone(), self.readback_slot.stamps(&self.log).unwrap_or_default());
        let profile: Arc<dyn Fn() -> Profile + Send + Sync> = Arc::new(move || log.profile(&stamps));
        watchers.iter().for_each(|watcher| watcher.notify(profile.clone()));
    }

    /// Removes the watchers, so that none gets a profile.
    fn take_watchers(&self) -> WatcherList {
        std::mem::take(&mut *self.watchers.lock())
    }
}

impl Drop for BatchState {
    /// Ensures that every batch completes. `complete` and `fail` normally do so; this covers a submission that was
    /// dropped without either.
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.completion.finish(Err(Error::internal("the batch was dropped without a result; please report it")));
        }
    }
}

impl BatchState {
    /// A batch that has pinned no blocks yet.
    pub(crate) fn new(completion: Arc<Completion>, touches: Arc<[Touch]>, at: CallSite) -> Self {
        Self {
            completion,
            pins: Pins::default(),
            touches,
            at,
            sequence: Sequence::next(),
            readback: OnceLock::new(),
            keeps: None,
            run_memory: OnceLock::new(),
            logged: None,
            ended: AtomicBool::new(false),
        }
    }

    /// Keeps the blocks alive (by slot, then others) and claims those that the batch overwrites.
    pub(crate) fn pin(&mut self, blocks: Vec<Option<Arc<Block>>>) {
        self.pins.blocks = blocks;
        self.overwritten(None).for_each(|block| block.claim(self.sequence));
    }

    /// As [`BatchState::pin`], but claims nothing: it is not known yet which batches this one comes before.
    pub(crate) fn hold(&mut self, blocks: Vec<Option<Arc<Block>>>) {
        self.pins.blocks = blocks;
    }

    /// Blocks that are fully overwritten by one section of the batch, or by all of it.
    fn overwritten(&self, section: Option<u32>) -> impl Iterator<Item = &Arc<Block>> {
        let of = move |touch: &&Touch| section.is_none_or(|section| touch.section == section);
        let overwrites = self.touches.iter().filter(of).filter(|touch| touch.writes && !touch.reads_previous);
        overwrites.filter_map(|touch| self.block(touch.slot))
    }

    /// Sets its readback. Once, before the last submission is submitted.
    pub(crate) fn set_readback(&self, pending: Arc<dyn PendingReadback>, readback_slot: Arc<BatchReadback>) {
        drop(self.readback.set((pending, readback_slot)));
    }

    /// Keeps memory alive until the batch is done. All of its submissions use the same.
    pub(crate) fn keep_memory(&self, memory: Arc<dyn PendingReadback>) {
        drop(self.run_memory.set(memory));
    }

    /// The batch was not submitted and will not be. Its completion is set elsewhere, so dropping this must not set it.
    pub(crate) fn disarm(self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The blocks it uses, by slot.
    pub(crate) fn blocks(&self) -> &[Option<Arc<Block>>] {
        match &self.keeps {
            Some(replay) if self.pins.blocks.is_empty() => &replay.resources.blocks,
            _ => &self.pins.blocks,
        }
    }

    fn block(&self, slot: SlotId) -> Option<&Arc<Block>> {
        self.blocks().get(slot.0 as usize)?.as_ref()
    }
}

impl<C> ReadySubmission<C> {
    /// A batch of one submission.
    pub(crate) fn whole(commands: C, batch: BatchState) -> Self {
        let batch = Arc::new(batch);
        Self {
            commands,
            submission: Submission {
                part: 0,
                section: 0,
                last: true,
                batch,
                estimate: None,
                native: false,
                budget: None,
                submitted_at: None,
                order: 0,
            },
        }
    }
}

/// Blocks in use, by slot. A later batch reuses the list itself.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) blocks: Vec<Option<Arc<Block>>>,
}

static SPARE: Spares<Vec<Option<Arc<Block>>>> = Spares::new();

impl Pins {
    /// An empty list, with capacity if a spare one exists.
    pub(crate) fn spare() -> Vec<Option<Arc<Block>>> {
        SPARE.take()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut blocks = std::mem::take(&mut self.blocks);
        // Blocks return to their pool here, outside the lock.
        blocks.clear();
        if (1..=MAX_SPARE_OPS).contains(&blocks.capacity()) {
            SPARE.put(blocks);
        }
    }
}

impl Submission {
    /// The submission is done and its readback is mapped. `before` runs before the completion is set.
    pub(crate) fn complete(self, before: impl FnOnce()) -> Wakers {
        if !self.last {
            before();
            return Wakers::default();
        }
        if let Some((pending, readback_slot)) = self.batch.readback.get() {
            readback_slot.set(pending.clone().ready());
        }
        if let Some(logged) = &self.batch.logged {
            logged.notify();
        }
        let completion = self.batch.completion.clone();
        self.batch.ended.store(true, Ordering::Relaxed);
        // Pins are dropped first: a caller that sees the completion finds its buffers back in the pool.
        drop(self);
        before();
        completion.end(Ok(()))
    }

    /// The submission failed; `started` says whether it may have written anything.
    pub(crate) fn fail(self, error: &Error, started: bool) -> Wakers {
        let error = &match error.location() {
            Some(_) => error.clone(),
            None => error.clone().at(self.batch.at),
        };
        drop(self.batch.logged.as_ref().map(ProfiledBatch::take_watchers));
        // A batch refused before its first submission has had no effect. Once it has started, the buffers that this and
        // later submissions write are stale.
        if started || self.part > 0 {
            for touch in self.batch.touches.iter().filter(|touch| touch.writes && touch.section >= self.section) {
                if let Some(block) = self.batch.block(touch.slot) {
                    block.poison(error, self.batch.sequence, self.order);
                }
            }
        } else {
            self.batch.overwritten(None).for_each(|block| block.unclaim(self.batch.sequence));
        }
        self.batch.completion.end(Err(error.clone()))
    }

    /// Starts it, unless the batch is done: an earlier submission failed, or it was canceled.
    pub(crate) fn begin(self) -> std::result::Result<Self, Wakers> {
        let completion = &self.batch.completion;
        let pending = completion.begin();
        if pending && !completion.canceled.load(Ordering::Relaxed) {
            return Ok(self);
        }
        // The first submission reports that the batch was canceled before it started. Later ones have nothing to
        // report.
        Err(if pending || self.part == 0 { self.fail(&canceled(), false) } else { Wakers::default() })
    }

    /// The number of pipelines of a native replay that ran for the first time in it. It must be done.
    pub(crate) fn first_runs(&self) -> usize {
        let replay = self.batch.keeps.as_ref().filter(|_| self.native);
        replay.map_or(0, |replay| replay.first_runs(self.last))
    }

    /// Logs that it was seen to be done at `now`.
    pub(crate) fn log_finished(&self, now: Instant) {
        if let Some(logged) = &self.batch.logged {
            logged.log.completed(self.part, now);
        }
    }

    /// Logs that it was submitted.
    pub(crate) fn log_submitted(&self, begin: Instant) {
        if let Some(logged) = &self.batch.logged {
            logged.log.stage(StageKind::Submit, self.part, begin, Instant::now());
        }
    }

    /// The readback that must be mapped before it completes.
    pub(crate) fn pending_readback(&self) -> Option<&dyn PendingReadback> {
        if self.last { self.batch.readback.get().map(|(pending, _)| &**pending) } else { None }
    }

    /// It was submitted: blocks that it overwrites are no longer poisoned by earlier failures.
    pub(crate) fn overwrite(&self) {
        self.batch.overwritten(Some(self.section)).for_each(|block| block.overwrite(self.order));
    }

    /// An error if a buffer that it needs was poisoned after the batch was checked, by a batch queued before it.
    pub(crate) fn check(&self) -> Result<()> {
        let needed = self.batch.touches.iter().filter(|touch| touch.section == self.section && touch.reads_previous);
        for touch in needed {
            if let Some(cause) = self.batch.block(touch.slot).and_then(|block| block.poisoned_now()) {
                return Err(poisoned(cause));
            }
        }
        Ok(())
    }
}

/// The error of using a buffer that a failed submission has poisoned.
pub(crate) fn poisoned(cause: Error) -> Error {
    let message = "a buffer holds what a failed submission left behind; write, fill or copy all of it first";
    Error::new(ErrorKind::Poisoned, message).caused_by(cause)
}
