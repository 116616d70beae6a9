//! One submission on its way: the commands, and all that must stay alive until they are done.

use std::{
    fmt,
    panic::Location,
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
    error::{Error, ErrorKind, Result},
    finish::{BatchReadback, Completion, PendingReadback, Wakers, canceled},
    memory::{Block, Sequence},
    policy::WorkEstimate,
    profile::{Log, Profile, StageKind, WatcherList},
};

/// One submission, ready to go, by commands `C`.
#[derive(Debug)]
pub(crate) struct ReadySubmission<C> {
    pub(crate) commands: C,
    pub(crate) submission: Submission,
}

/// One submission of a batch without its commands: who waits for it, and what it holds. A batch that is split makes several.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Which submission of its batch it is.
    pub(crate) part: u32,
    /// Which stretch between the splits of its batch it belongs to.
    pub(crate) section: u32,
    /// The last one of its batch: landing it ends the batch.
    pub(crate) last: bool,
    pub(crate) batch: Arc<BatchState>,
    /// What it has to do.
    pub(crate) estimate: Option<Arc<WorkEstimate>>,
    /// Whether its pipelines are those of a native replay. Known when it has left.
    pub(crate) native: bool,
    /// What it was cut to take at most.
    pub(crate) budget: Option<Duration>,
    /// When it left.
    pub(crate) submitted_at: Option<Moment>,
    /// Its place in the order in which submissions and writes reach the device. Given when its turn has come.
    pub(crate) order: u64,
}

/// What a whole batch keeps alive until its last submission has landed.
#[derive(Debug)]
pub(crate) struct BatchState {
    pub(crate) completion: Arc<Completion>,
    pub(crate) pins: Pins,
    pub(crate) touches: Arc<[Touch]>,
    /// Where it was submitted.
    at: &'static Location<'static>,
    /// When it was handed over.
    sequence: Sequence,
    /// What it reads back, and where its readings look for it. Known before the last submission leaves.
    readback: OnceLock<(Arc<dyn PendingReadback>, Arc<BatchReadback>)>,
    /// The replay that this is a run of. It keeps its blocks alive, so none are pinned.
    pub(crate) keeps: Option<Arc<dyn Replayed>>,
    /// Where somebody wants to know what it takes.
    pub(crate) logged: Option<ProfiledBatch>,
    /// All went well; its completion is about to be told.
    landed: AtomicBool,
}

/// A replay, as the runs of it see it.
pub(crate) trait Replayed: fmt::Debug + Send + Sync {
    /// What its runs use, by slot.
    fn blocks(&self) -> &[Option<Arc<Block>>];

    /// A submission has taken longer than its budget.
    fn set_overran(&self);

    /// Pipelines that have run for the first time when a submission of a native run is done, the last one or not.
    fn first_runs(&self, last: bool) -> usize;
}

/// A log of a batch, and who is to hear of it.
#[derive(Debug)]
pub(crate) struct ProfiledBatch {
    pub(crate) log: Arc<Log>,
    landing: Arc<BatchReadback>,
    /// Let go of when the batch is over: they wait for that.
    watchers: Mutex<WatcherList>,
}

impl ProfiledBatch {
    pub(crate) fn new(log: Arc<Log>, landing: Arc<BatchReadback>, watchers: WatcherList) -> Self {
        Self { log, landing, watchers: Mutex::new(watchers) }
    }

    /// The batch has landed.
    fn tell(&self) {
        let watchers = self.disarm();
        if watchers.is_empty() {
            return;
        }
        // Copied: what waits to be told must not keep all that the batch reads.
        let (log, stamps) = (self.log.clone(), self.landing.stamps(&self.log).unwrap_or_default());
        let profile: Arc<dyn Fn() -> Profile + Send + Sync> = Arc::new(move || log.profile(&stamps));
        watchers.iter().for_each(|watcher| watcher.tell(profile.clone()));
    }

    /// Nobody is to be told any more.
    fn disarm(&self) -> WatcherList {
        std::mem::take(&mut *self.watchers.lock())
    }
}

impl Drop for BatchState {
    /// However a batch ends, whoever waits for it hears of it. Landing and failing come first; this is for what went wrong on the way.
    fn drop(&mut self) {
        if !*self.landed.get_mut() {
            self.completion.finish(Err(Error::internal("the batch was lost on its way; please report it")));
        }
    }
}

impl BatchState {
    /// Of a batch that has pinned nothing yet.
    pub(crate) fn new(completion: Arc<Completion>, touches: Arc<[Touch]>, at: &'static Location<'static>) -> Self {
        Self {
            completion,
            pins: Pins::default(),
            touches,
            at,
            sequence: Sequence::next(),
            readback: OnceLock::new(),
            keeps: None,
            logged: None,
            landed: AtomicBool::new(false),
        }
    }

    /// Keeps the blocks, by slot and then others, and claims those that it overwrites.
    pub(crate) fn pin(&mut self, blocks: Vec<Option<Arc<Block>>>) {
        self.pins.blocks = blocks;
        self.overwritten(None).for_each(|block| block.claim(self.sequence));
    }

    /// Blocks of which nothing is left that was there before the batch, after one of its submissions or all of them.
    fn overwritten(&self, section: Option<u32>) -> impl Iterator<Item = &Arc<Block>> {
        let of = move |touch: &&Touch| section.is_none_or(|section| touch.section == section);
        let overwrites = self.touches.iter().filter(of).filter(|touch| touch.writes && !touch.reads_previous);
        overwrites.filter_map(|touch| self.block(touch.slot))
    }

    /// What it reads back. Once, before the last submission leaves.
    pub(crate) fn returns(&self, pending: Arc<dyn PendingReadback>, landing: Arc<BatchReadback>) {
        drop(self.readback.set((pending, landing)));
    }

    /// The batch has not left and will not; whoever waits hears of it from somebody else.
    pub(crate) fn disarm(self) {
        self.landed.store(true, Ordering::Relaxed);
    }

    /// What it uses, by slot.
    pub(crate) fn blocks(&self) -> &[Option<Arc<Block>>] {
        match &self.keeps {
            Some(replay) => replay.blocks(),
            None => &self.pins.blocks,
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

/// Blocks in use, by slot; the list itself is used again by a later batch.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) blocks: Vec<Option<Arc<Block>>>,
}

/// Lists kept for later batches: as many as flights can sensibly be under way.
const SPARES: usize = 16;
/// A longer list is not kept, as what one large batch took would stay for good; nor one without room.
const SPARE_SLOTS: usize = 1 << 16;
static SPARE: Mutex<Vec<Vec<Option<Arc<Block>>>>> = Mutex::new(Vec::new());

impl Pins {
    /// An empty list, with room if one is to be had.
    pub(crate) fn spare() -> Vec<Option<Arc<Block>>> {
        SPARE.lock().pop().unwrap_or_default()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut blocks = std::mem::take(&mut self.blocks);
        // Blocks go back to their pool here, outside the lock.
        blocks.clear();
        let mut spare = SPARE.lock();
        if spare.len() < SPARES && (1..=SPARE_SLOTS).contains(&blocks.capacity()) {
            spare.push(blocks);
        }
    }
}

impl Submission {
    /// The submission is done and what it reads back is mapped. Whoever waits hears of it only after `before`.
    pub(crate) fn complete(self, before: impl FnOnce()) -> Wakers {
        if !self.last {
            before();
            return Wakers::default();
        }
        if let Some((pending, landing)) = self.batch.readback.get() {
            landing.set(pending.clone().ready());
        }
        if let Some(logged) = &self.batch.logged {
            logged.tell();
        }
        let completion = self.batch.completion.clone();
        self.batch.landed.store(true, Ordering::Relaxed);
        // Pins go first: whoever hears of completion finds its buffers back in the pool.
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
        drop(self.batch.logged.as_ref().map(ProfiledBatch::disarm));
        // A batch refused before its first submission started has had no effect; later parts of a started one are stale.
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

    /// It is about to leave, unless the batch is over: an earlier part has failed, or somebody has canceled it.
    pub(crate) fn begin(self) -> std::result::Result<Self, Wakers> {
        let completion = &self.batch.completion;
        let pending = completion.begin();
        if pending && !completion.canceled().load(Ordering::Relaxed) {
            return Ok(self);
        }
        // The first part of a batch canceled before it started; a later part of one that is over has no more to say.
        Err(if pending || self.part == 0 { self.fail(&canceled(), false) } else { Wakers::default() })
    }

    /// How many pipelines of a native replay have run for the first time, now that it is done.
    pub(crate) fn first_runs(&self) -> usize {
        let replay = self.batch.keeps.as_ref().filter(|_| self.native);
        replay.map_or(0, |replay| replay.first_runs(self.last))
    }

    /// It is done, as was seen now.
    pub(crate) fn log_finished(&self, now: Instant) {
        if let Some(logged) = &self.batch.logged {
            logged.log.landed(self.part, now);
        }
    }

    /// It has been handed over.
    pub(crate) fn log_submitted(&self, begin: Instant) {
        if let Some(logged) = &self.batch.logged {
            logged.log.stage(StageKind::Submit, self.part, begin, Instant::now());
        }
    }

    /// What must be mapped before it has landed.
    pub(crate) fn pending_readback(&self) -> Option<&dyn PendingReadback> {
        if self.last { self.batch.readback.get().map(|(pending, _)| &**pending) } else { None }
    }

    /// It is on its way to the device: what it overwrites is no longer what others left behind.
    pub(crate) fn overwrite(&self) {
        self.batch.overwritten(Some(self.section)).for_each(|block| block.overwrite(self.order));
    }

    /// Something it needs was poisoned after the batch was checked: by a batch that was queued before it.
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

/// The error of using a buffer that a failed submission has left behind.
pub(crate) fn poisoned(cause: Error) -> Error {
    let message = "a buffer holds what a failed submission left behind; write, fill or copy all of it first";
    Error::new(ErrorKind::Poisoned, message).caused_by(cause)
}
