//! Recording: a [`Batch`] appends ops as plain data and touches no device until it is submitted.
//!
//! Recording never fails. A mistake is kept with the op's number, its label and the user's line, and `submit` returns
//! all mistakes before anything runs.

mod bind;
mod buffer;
mod dispatch;
mod encode;
mod freeze;
mod grid;
mod plan_summary;
mod record;
mod recorder;
mod row_widths;
mod sharing;
mod tensor;
mod transfer;

use std::{
    cell::{RefCell, RefMut},
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytemuck::Pod;
use sortie_plan::OpKind;

use self::recorder::Recorder;
pub use self::{
    bind::{Bind, Slot, Typed, Untyped},
    dispatch::Dispatch,
    grid::{Extent, Grid},
    plan_summary::PlanSummary,
    record::Record,
};
pub(crate) use self::{
    bind::{BindTarget, FlatRows},
    row_widths::RowWidths,
};
pub use crate::finish::Readable;
use crate::{
    backend::Backend,
    clock::Instant,
    device::{Device, DeviceCore},
    error::{CallSite, Error, ErrorKind, Result},
    finish::{BatchReadback, Completion, Reading, Ticket},
    launch::{self, Launch, Profiled, RunSource},
    plan::{BatchRun, CachedPlan, Cuts, KnownBatch, Resources},
    policy::Split,
    profile::{Log, Profile, StageKind},
};

/// Operations being recorded, to be run together as one submission.
///
/// Ops run as if one after the other, in the order they were recorded. The planner finds their dependencies and runs
/// independent ops concurrently. No manual barriers are needed.
///
/// ```
/// use sortie::Grid;
/// # let device = sortie::Device::cpu()?;
/// let double = device.kernel("
///     @group(0) @binding(0) var<storage, read> x: array<f32>;
///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///     @compute @workgroup_size(64)
///     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
///     }
/// ")?;
/// let x = device.upload(&[1.0_f32; 1000])?;
/// let y = device.zeros::<f32>(1000)?;
///
/// let batch = device.batch();
/// for _ in 0..500 {
///     batch.dispatch(&double, &[&x, &y], Grid::items(1000));
///     batch.dispatch(&double, &[&y, &x], Grid::items(1000)).label("and back");
/// }
/// let result = batch.read(&x);
/// batch.submit()?; // a thousand dispatches, one submission
/// let result: Vec<f32> = result.wait()?;
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// Recording goes through `&Batch`, so that tensors can borrow their batch. A batch is `Send` but not `Sync`: one thread
/// records it.
#[derive(derive_more::Debug)]
#[debug("Batch {{ ops: {}, slots: {}, .. }}", self.num_ops(), self.num_slots())]
pub struct Batch {
    pub(crate) core: Arc<DeviceCore>,
    pub(crate) id: u64,
    state: RefCell<BatchState>,
}

/// What recording changes. Never borrowed while user code runs.
#[derive(Default)]
struct BatchState {
    /// `None` once submitted.
    recorder: Option<Box<Recorder>>,
    /// Created by the first read, or at submit.
    completion: Option<Arc<Completion>>,
    /// Holds the data of its readings; `None` before the first read.
    readback: Option<Arc<BatchReadback>>,
    /// How the batch is split; `None`: by the device's policy.
    split: Option<Split>,
    /// Profile log, if this batch is profiled.
    log: Option<Arc<Log>>,
    /// Its buffers are unlikely to be used again in the same way, so a recording of it would not be reused.
    is_single: bool,
}

/// Fields needed to record an op, borrowed separately.
struct OpRecorder<'a> {
    core: &'a Arc<DeviceCore>,
    batch: u64,
    recorder: RefMut<'a, Recorder>,
}

impl Device {
    /// Begins a batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(self.core.clone())
    }
}

impl Batch {
    pub(crate) fn new(core: Arc<DeviceCore>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let state = BatchState { recorder: Some(Recorder::take()), ..BatchState::default() };
        let batch = Self { core, id: NEXT.fetch_add(1, Ordering::Relaxed), state: RefCell::new(state) };
        if batch.core.notes.is_on() {
            batch.logged();
        }
        batch
    }

    /// Memory for `len` elements that lives as long as this batch. It reads as zero until it is written.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let room = batch.scratch::<f32>(4);
    /// batch.write(room, &[1.0, 2.0, 3.0, 4.0]);
    /// let read = batch.read(room);
    /// batch.submit()?;
    /// assert_eq!(read.wait()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn scratch<T: Pod>(&self, len: usize) -> Slot<T> {
        let bytes = crate::memory::bytes_of::<T>(len);
        let limit = self.core.limits().buffer_bytes;
        let index = match bytes {
            Ok(bytes) if bytes <= limit => self.recorder().scratch(bytes.next_multiple_of(4)).0,
            Ok(bytes) => self.no_scratch(Error::too_large("scratch: bytes in one buffer", bytes, limit)),
            Err(error) => self.no_scratch(error),
        };
        Slot::new(self.id, index, len)
    }

    /// Makes everything recorded after it wait for everything recorded before it. Never needed for correctness; it only
    /// constrains the planner.
    #[track_caller]
    pub fn barrier(&self) {
        self.recorder().push_fence(OpKind::Barrier, Location::caller());
    }

    /// Ends a submission here: the ops that follow go into another submission.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let batch = device.batch();
    /// batch.fill(&x, 1);
    /// batch.split(); // the device can start with the ops above
    /// batch.fill(&x, 2);
    /// assert_eq!(batch.plan()?.submissions(), 2);
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [2; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self) {
        self.recorder().push_fence(OpKind::Split, Location::caller());
    }

    /// Sets how this batch is split into submissions, instead of the device's [policy](crate::policy::SubmitPolicy).
    ///
    /// ```
    /// use sortie::policy::Split;
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let batch = device.batch();
    /// for value in 0..100 {
    ///     batch.fill(&x, value);
    /// }
    /// batch.split_by(Split::Every(10));
    /// assert_eq!(batch.plan()?.submissions(), 10);
    /// batch.submit()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn split_by(&self, split: Split) {
        self.state.borrow_mut().split = Some(split);
    }

    /// Records `ops` under a name, which shows in errors and profiles. Scopes nest.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let (x, short) = (device.zeros::<u32>(4)?, device.zeros::<u32>(2)?);
    /// let batch = device.batch();
    /// batch.scope("layer 3", |batch| batch.copy(&x, &short));
    /// let error = batch.submit().unwrap_err();
    /// assert_eq!(error.label(), Some("layer 3"));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn scope<'b, R>(&'b self, name: &str, ops: impl FnOnce(&'b Self) -> R) -> R {
        let scope = self.recorder().resources.names.open_scope(name);
        let result = ops(self);
        self.recorder().resources.names.close_scope(scope);
        result
    }

    /// Profiles the batch, op by op: host and device time, the kernel that executed each op, and the ops fused with it.
    ///
    /// The plan, passes and submissions stay the same. Call it first to also time recording. The guide
    /// [`profiling`](crate::guide::profiling) lists the costs.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let profile = batch.profile();
    /// let x = batch.tensor_from(&[1.0_f32; 1024], [1024]);
    /// let y = x.exp().relu().read();
    /// batch.submit()?;
    /// let profile = profile.wait()?;
    /// assert_eq!(profile.ops()[1].kernel(), Some("exp+relu"));
    /// assert_eq!(profile.ops()[1].fused_with(), [2]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn profile(&self) -> Reading<Profile> {
        let (completion, readback, log) = (self.completion(), self.readback(), self.logged());
        readback.set_log(&log);
        Reading::new(completion, readback, 0, 0)
    }

    /// Number of operations recorded: dispatches, tensor operations, copies and fills.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let y = batch.tensor_from(&[1.0_f32, 2.0], [2]).exp().read();
    /// assert_eq!((batch.num_ops(), batch.num_transfers()), (1, 2));
    /// # batch.submit()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn num_ops(&self) -> usize {
        let transfers = self.num_transfers();
        self.recorder().resources.names.count() - transfers
    }

    /// Number of writes and reads recorded.
    #[must_use]
    pub fn num_transfers(&self) -> usize {
        let is_transfer = |kind| matches!(kind, OpKind::Write { .. } | OpKind::Read { .. });
        self.recorder().recording.ops.iter().filter(|op| is_transfer(op.kind)).count()
    }

    /// Number of distinct buffers and scratch slots used so far.
    #[must_use]
    pub fn num_slots(&self) -> usize {
        self.recorder().recording.slots.len()
    }

    /// Runs the batch and waits for a reading of exactly `N` elements.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let sum = batch.tensor_from(&[1.0_f32, 2.0, 3.0], [3]).sum(&[0]).read();
    /// let [sum] = batch.run_and_read(sum)?;
    /// assert_eq!(sum, 6.0);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::submit`]; [`Shape`](ErrorKind::Shape) if the reading has another length.
    #[track_caller]
    pub fn run_and_read<T: Pod, const N: usize>(self, reading: Reading<T>) -> Result<[T; N]> {
        self.submit()?;
        let mut elements = [T::zeroed(); N];
        reading.wait_into(&mut elements)?;
        Ok(elements)
    }

    /// Runs the batch and waits until it is done.
    ///
    /// # Errors
    /// All mistakes made while recording, before anything runs. Then errors of encoding
    /// ([`OutOfMemory`](ErrorKind::OutOfMemory), [`Poisoned`](ErrorKind::Poisoned)) and of execution
    /// ([`DeviceLost`](ErrorKind::DeviceLost); on the built-in CPU also [`Timeout`](ErrorKind::Timeout) and
    /// [`Race`](ErrorKind::Race), if those checks are enabled).
    #[track_caller]
    pub fn submit(self) -> Result<()> {
        self.launch(Location::caller(), true).map(drop)
    }

    /// Submits the batch and returns at once, without waiting for the device.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let batch = device.batch();
    /// batch.fill(&x, 7);
    /// let reading = batch.read(&x);
    /// let ticket = batch.submit_async()?;
    /// // Do other work meanwhile; then:
    /// assert_eq!(reading.wait()?, [7; 4]); // or `reading.await?`
    /// ticket.wait()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::submit`], except that errors of execution are returned by the ticket.
    #[track_caller]
    pub fn submit_async(self) -> Result<Ticket> {
        self.launch(Location::caller(), false).map(Ticket::new)
    }

    /// Checks, plans and launches. An error is also returned by the readings.
    fn launch(self, at: CallSite, wait: bool) -> Result<Arc<Completion>> {
        self.start(at, wait, |_, _| Ok(()), |backend, launch| backend.launch(launch), true)
    }

    /// As [`Batch::launch`]: `check` may refuse the recording, `run` launches the plan. `resubmits`: the device's own
    /// recording of the batch may run instead.
    fn start(
        self,
        at: CallSite,
        wait: bool,
        check: impl FnOnce(&DeviceCore, &mut Recorder) -> Result<()>,
        run: impl FnOnce(&dyn Backend, Launch<'_>) -> Result<()>,
        resubmits: bool,
    ) -> Result<Arc<Completion>> {
        let core = self.core.clone();
        let _inside = core.backend.enter();
        let completion = self.completion();
        let mut state = self.state.take();
        if state.log.is_none() && core.notes.is_on() {
            // The batch began before the device was watched, so its recording time is unknown.
            state.log = Some(Arc::new(Log::new()));
        }
        if let Some(log) = &state.log {
            state.readback.get_or_insert_default().set_log(log);
        }
        let mut recorder = state.recorder.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        let checked = check(&core, &mut recorder).and_then(|()| state.prepare(&core, &mut recorder));
        let outcome = match checked {
            Ok((known, cuts)) => {
                let batch = BatchRun { resources: &recorder.resources, cuts: &cuts, completion: &completion };
                let recorded = match resubmits && !state.is_single {
                    true => core.recording_of(&known, batch, state.log.is_some(), at),
                    false => None,
                };
                // The recording may have other cuts that fit as well.
                let cuts = recorded.as_ref().map_or_else(|| cuts.clone(), |recorded| recorded.cuts.clone());
                run(
                    &*core.backend,
                    Launch {
                        planned: cuts.planned(&known.plan),
                        cuts: &cuts,
                        source: RunSource::Batch(&mut recorder.resources, recorded),
                        completion: &completion,
                        readback: state.readback.as_ref(),
                        profiled: state.log.as_ref().map(|log| Profiled {
                            log,
                            watchers: core.notes.watchers(),
                            device: &core.info,
                        }),
                        at,
                        wait,
                    },
                )
            }
            Err(error) => {
                let error =
                    launch::attribute(error, &recorder.resources.blocks, |error| core.backend.explain(error), at);
                Err(launch::refuse(error, &completion, &core.counters))
            }
        };
        recorder.give_back();
        outcome.map(|()| completion)
    }

    #[track_caller]
    fn no_scratch(&self, error: Error) -> u32 {
        let mut recorder = self.recorder();
        recorder.refuse(error, Location::caller());
        recorder.scratch(4).0
    }

    /// Records an op, or the mistake in its place.
    fn record_op(&self, at: CallSite, record: impl FnOnce(&mut OpRecorder<'_>) -> Result<()>) {
        let mut recorder = self.op_recorder();
        if let Err(error) = record(&mut recorder) {
            recorder.recorder.refuse(error, at);
        }
    }

    #[inline]
    fn op_recorder(&self) -> OpRecorder<'_> {
        OpRecorder { core: &self.core, batch: self.id, recorder: self.recorder() }
    }

    #[inline]
    fn recorder(&self) -> RefMut<'_, Recorder> {
        RefMut::map(self.state.borrow_mut(), |state| match &mut state.recorder {
            Some(recorder) => &mut **recorder,
            None => unreachable!("submit takes the batch"),
        })
    }

    /// It is never recorded for the device.
    pub(crate) fn set_single(&self) {
        self.state.borrow_mut().is_single = true;
    }

    fn completion(&self) -> Arc<Completion> {
        self.state.borrow_mut().completion.get_or_insert_with(|| Arc::new(Completion::new())).clone()
    }

    fn readback(&self) -> Arc<BatchReadback> {
        self.state.borrow_mut().readback.get_or_insert_default().clone()
    }

    fn logged(&self) -> Arc<Log> {
        let mut state = self.state.borrow_mut();
        if state.log.is_none()
            && let Some(recorder) = &mut state.recorder
        {
            recorder.resources.names.keep_times();
        }
        state.log.get_or_insert_with(|| Arc::new(Log::new())).clone()
    }
}

impl BatchState {
    /// Collects all mistakes, then finds the plan and its cuts.
    fn prepare(&self, core: &DeviceCore, recorder: &mut Recorder) -> Result<(Arc<KnownBatch>, Arc<Cuts>)> {
        if let Some(mistakes) = Error::all(recorder.mistakes()) {
            return Err(mistakes);
        }
        if !recorder.recording.inputs.is_empty() || !recorder.recording.outputs.is_empty() {
            let message = "this batch has inputs or outputs: `freeze` it, and submit runs of the replay";
            return Err(Error::new(ErrorKind::Bindings, message));
        }
        core.lost.check()?;
        let log = self.log.as_deref();
        if let Some(log) = log {
            log.stage(StageKind::Record, 0, log.zero, Instant::now());
        }
        let planned = Log::time(log, StageKind::Plan, || core.plan(&recorder.recording))?;
        let cuts = self.cuts(core, &planned.plan, &recorder.resources);
        Ok((planned, cuts))
    }

    /// The cuts of the plan.
    fn cuts(&self, core: &DeviceCore, planned: &CachedPlan, resources: &Resources) -> Arc<Cuts> {
        let split = self.split.unwrap_or(core.policy.split);
        planned.cuts(&core.costs, core.limits(), resources, split.rule(), core.abilities.divides)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(recorder) = state.recorder.take() {
            if let Some(completion) = &state.completion {
                completion
                    .finish(Err(Error::new(ErrorKind::Canceled, "the batch was dropped before it was submitted")));
            }
            recorder.give_back();
        }
    }
}
