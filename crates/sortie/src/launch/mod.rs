//! One way for batches and runs of replays to the device: check, execute, hand over, wait.

mod guest;
mod hand_over;

use std::sync::Arc;

use sortie_plan::{Op, SlotId};

pub(crate) use self::guest::encode;
use self::hand_over::{HandOver, HandedOver};
use crate::{
    error::{CallSite, Error, Result},
    finish::{BatchReadback, Completion, PendingReadback},
    info::{DeviceInfo, DeviceKind},
    memory::Block,
    metrics::{AtomicCounter, Counters},
    plan::{CachedPlan, Cuts, FrozenPlan, PlanDescription, Resources, RunArgs},
    profile::{Log, StageKind, WatcherList},
    submit::{BatchState, DeviceQueue, ProfiledBatch, Submitter, poisoned},
};

/// A batch, or a run of a replay, that has been checked and planned.
pub(crate) struct Launch<'a> {
    /// The plan to run, with large dispatches divided if necessary.
    pub(crate) planned: &'a Arc<CachedPlan>,
    /// Where the plan is cut into submissions.
    pub(crate) cuts: &'a Cuts,
    pub(crate) source: RunSource<'a>,
    pub(crate) completion: &'a Arc<Completion>,
    /// Receives the data for its readings, if it has any.
    pub(crate) readback: Option<&'a Arc<BatchReadback>>,
    /// Set if the launch is profiled.
    pub(crate) profiled: Option<Profiled<'a>>,
    /// The source line that submits it.
    pub(crate) at: CallSite,
    /// Whether the caller waits until it is done.
    pub(crate) wait: bool,
}

/// The memory and data that a plan refers to.
pub(crate) enum RunSource<'a> {
    /// A batch: its submissions take over its memory. The second is the device's own recording of it, if there is one.
    Batch(&'a mut Resources, Option<Arc<FrozenPlan>>),
    /// A run of a replay, which keeps its memory.
    Replay(&'a Arc<FrozenPlan>, RunArgs),
}

/// The profile log of a launch, and the watchers that get its profile.
pub(crate) struct Profiled<'a> {
    pub(crate) log: &'a Arc<Log>,
    pub(crate) watchers: WatcherList,
    pub(crate) device: &'a DeviceInfo,
}

/// The last submission of a launch and the launch's readback. `None`: there is nothing to do.
pub(crate) type Last<Q> = Option<(<Q as DeviceQueue>::Commands, Option<Arc<dyn PendingReadback>>)>;

/// Receives each submission that is not the last of its launch, as soon as it is encoded.
pub(crate) type SubmitPart<'a, Q> = &'a mut dyn FnMut(<Q as DeviceQueue>::Commands, &[Option<Arc<Block>>]);

/// A backend, as launches see it.
pub(crate) trait Executor {
    type Queue: DeviceQueue;

    fn submitter(&self) -> &Submitter<Self::Queue>;

    /// Turns a launch into commands, submission by submission. Everything that can fail by itself (compiling,
    /// allocating) does so before the first submission.
    fn execute(&self, launch: &mut Launch<'_>, submit_part: SubmitPart<'_, Self::Queue>) -> Result<Last<Self::Queue>>;

    /// Replaces an error caused by a lost device with [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn explain(&self, error: Error) -> Error {
        error
    }
}

impl Launch<'_> {
    /// The profile log, if the launch is profiled.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.profiled.as_ref().map(|profiled| profiled.log)
    }

    fn resources(&self) -> &Resources {
        match &self.source {
            RunSource::Batch(resources, _) => resources,
            RunSource::Replay(frozen, _) => &frozen.resources,
        }
    }

    /// An error if the launch would read a buffer that a failed submission has poisoned.
    fn check_poison(&self) -> Result<()> {
        let (resources, planned) = (self.resources(), self.planned);
        let blocks = (0u32..).map(SlotId).zip(&resources.blocks);
        for (slot, cause) in blocks.filter_map(|(slot, block)| Some((slot, block.as_ref()?.poisoned()?))) {
            if planned.touches.iter().find(|touch| touch.slot == slot).is_some_and(|touch| touch.reads_previous) {
                let uses = |op: &Op| planned.recording.accesses_of(op).iter().any(|access| access.slot == slot);
                let first = planned.recording.ops.iter().position(uses).unwrap_or_default();
                return Err(resources.names.attach(planned.origin(first), poisoned(cause)));
            }
        }
        Ok(())
    }

    /// The state that its submissions share until they are done.
    fn batch(&mut self) -> BatchState {
        let mut batch = BatchState::new(self.completion.clone(), self.planned.touches.clone(), self.at);
        batch.keeps = match &self.source {
            RunSource::Batch(_, recorded) => recorded.clone(),
            RunSource::Replay(frozen, _) => Some((*frozen).clone()),
        };
        if let Some((profiled, readback)) = self.profiled.as_mut().zip(self.readback) {
            let watchers = std::mem::take(&mut profiled.watchers);
            batch.logged = Some(ProfiledBatch::new(profiled.log.clone(), readback.clone(), watchers));
        }
        batch
    }

    /// Describes the plan in the profile log.
    fn describe(&self) {
        let Some(Profiled { log, device, .. }) = &self.profiled else { return };
        let described = PlanDescription::new(self.planned, self.resources(), log.zero);
        // A software driver runs ops one after the other anyway.
        let side_by_side = device.kind != DeviceKind::Software;
        log.planned(&device.to_string(), side_by_side, move || described.outline());
    }

    /// The number of inputs that a run of a replay uploads, and of outputs that it reads.
    fn transfers(&self) -> Option<(usize, usize)> {
        let RunSource::Replay(frozen, run_args) = &self.source else { return None };
        Some((frozen.planned.recording.inputs.iter().filter(|port| port.bytes > 0).count(), run_args.reads.len()))
    }
}

/// Launches a batch or run. An error before the first submission means that it had no effect; its completion gets the
/// error too.
pub(crate) fn run<E: Executor>(executor: &E, mut launch: Launch<'_>) -> Result<()> {
    let (submitter, completion) = (executor.submitter(), launch.completion);
    let handed_over = match hand_over(executor, &mut launch) {
        Ok(handed_over) => handed_over,
        Err(error) => {
            let error = attribute(error, &launch.resources().blocks, |error| executor.explain(error), launch.at);
            return Err(refuse(error, completion, &submitter.counters));
        }
    };
    handed_over.report_start(&submitter.counters, completion);
    match launch.wait {
        true => handed_over.finish(submitter, completion),
        false => {
            handed_over.send(submitter);
            Ok(())
        }
    }
}

fn hand_over<E: Executor>(
    executor: &E,
    launch: &mut Launch<'_>,
) -> Result<HandedOver<<E::Queue as DeviceQueue>::Commands>> {
    launch.check_poison()?;
    let (submitter, cuts, readback) = (executor.submitter(), launch.cuts, launch.readback);
    let transfers = launch.transfers();
    let mut hand_over = HandOver::new(submitter, cuts, launch.batch());
    let log = launch.log().cloned();
    let is_batch = matches!(launch.source, RunSource::Batch(..));
    let executed = Log::time(log.as_deref(), StageKind::Encode, || {
        let (ops, submissions) = (launch.planned.recording.ops.len(), cuts.list.len());
        let _span = tracing::debug_span!(target: "sortie", "encode", ops, submissions).entered();
        if let RunSource::Batch(resources, _) = &mut launch.source {
            launch.planned.complete(resources);
        }
        launch.describe();
        // A replay keeps its blocks alive itself.
        let pins = |blocks: &[Option<Arc<Block>>]| if is_batch { blocks.to_vec() } else { Vec::new() };
        executor.execute(launch, &mut |commands, blocks| hand_over.submit_part(Ok(commands), || pins(blocks)))
    });
    let handed_over = hand_over.finish(executed, readback, || match &mut launch.source {
        RunSource::Batch(resources, _) => std::mem::take(&mut resources.blocks),
        RunSource::Replay(..) => Vec::new(),
    })?;
    if let Some((uploads, reads)) = transfers {
        submitter.counters.uploads.add(uploads as u64);
        submitter.counters.reads.add(reads as u64);
    }
    Ok(handed_over)
}

/// Adds a source line to an error that has none: the line that submits. Errors of an op already have the op's line.
pub(crate) fn attribute(
    error: Error,
    blocks: &[Option<Arc<Block>>],
    explain: impl FnOnce(Error) -> Error,
    at: CallSite,
) -> Error {
    match error.location() {
        Some(_) => error,
        None => Block::blame_import(blocks.iter().flatten(), explain(error)).at(at),
    }
}

/// Ends a batch that was not submitted with `error`.
pub(crate) fn refuse(error: Error, completion: &Completion, counters: &Counters) -> Error {
    completion.finish(Err(error.clone()));
    counters.publish();
    error
}
