//! Recording: a [`Batch`] appends ops as plain data and touches no device until it is submitted.
//!
//! Recording never fails. A mistake is kept with the op's number, its label and the user's line, and `submit` returns
//! all mistakes before anything runs.

mod bind;
mod dispatch;
mod download;
mod freeze;
mod grid;
mod plan_summary;
mod record;
mod recorder;
mod tensor;
mod transfer;

use std::{
    fmt,
    marker::PhantomData,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytemuck::Pod;
use sortie_plan::OpKind;

pub(crate) use self::bind::BindTarget;
use self::recorder::Recorder;
pub use self::{
    bind::{Bind, Slot, Typed},
    dispatch::Dispatch,
    grid::{Extent, Grid},
    plan_summary::PlanSummary,
    record::Record,
};
pub use crate::finish::Readable;
use crate::{
    clock::Instant,
    device::{Device, DeviceCore},
    error::{Error, ErrorKind, Result},
    finish::{BatchReadback, Completion, Reading, Ticket},
    launch::{self, Launch, Profiled, RunSource},
    plan::{CachedPlan, Cuts, Resources},
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
/// let mut batch = device.batch();
/// for _ in 0..500 {
///     batch.dispatch(&double, &[&x, &y], Grid::items(1000));
///     batch.dispatch(&double, &[&y, &x], Grid::items(1000)).label("and back");
/// }
/// let result = batch.read(&x);
/// batch.submit()?; // a thousand dispatches, one submission
/// let result: Vec<f32> = result.wait()?;
/// # Ok::<(), sortie::Error>(())
/// ```
pub struct Batch {
    core: Arc<DeviceCore>,
    id: u64,
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
}

/// Fields needed to record an op, borrowed separately.
struct OpRecorder<'a> {
    core: &'a Arc<DeviceCore>,
    batch: u64,
    recorder: &'a mut Recorder,
}

impl Device {
    /// Begins a batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(self.core().clone())
    }
}

impl Batch {
    pub(crate) fn new(core: Arc<DeviceCore>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut batch = Self {
            core,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            recorder: Some(Recorder::take()),
            completion: None,
            readback: None,
            split: None,
            log: None,
        };
        if batch.core.notes().is_on() {
            batch.logged();
        }
        batch
    }

    /// Memory for `len` elements that lives as long as this batch. It reads as zero until it is written.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let room = batch.scratch::<f32>(4);
    /// batch.write(room, &[1.0, 2.0, 3.0, 4.0]);
    /// let read = batch.read(room);
    /// batch.submit()?;
    /// assert_eq!(read.wait()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn scratch<T: Pod>(&mut self, len: usize) -> Slot<T> {
        let bytes = crate::memory::bytes_of::<T>(len);
        let limit = self.core.limits().buffer_bytes;
        let index = match bytes {
            Ok(bytes) if bytes <= limit => self.recorder().scratch(bytes.next_multiple_of(4)).0,
            Ok(bytes) => self.no_scratch(Error::too_large("scratch: bytes in one buffer", bytes, limit)),
            Err(error) => self.no_scratch(error),
        };
        Slot { batch: self.id, index, len, elements: PhantomData }
    }

    /// Makes everything recorded after it wait for everything recorded before it. Never needed for correctness; it only
    /// constrains the planner.
    #[track_caller]
    pub fn barrier(&mut self) {
        self.recorder().push_fence(OpKind::Barrier, Location::caller());
    }

    /// Ends a submission here: the ops that follow go into another submission.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let mut batch = device.batch();
    /// batch.fill(&x, 1);
    /// batch.split(); // the device can start with the ops above
    /// batch.fill(&x, 2);
    /// assert_eq!(batch.plan()?.submissions(), 2);
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [2; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&mut self) {
        self.recorder().push_fence(OpKind::Split, Location::caller());
    }

    /// Sets how this batch is split into submissions, instead of the device's [policy](crate::policy::SubmitPolicy).
    ///
    /// ```
    /// use sortie::policy::Split;
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let mut batch = device.batch();
    /// for value in 0..100 {
    ///     batch.fill(&x, value);
    /// }
    /// batch.split_by(Split::Every(10));
    /// assert_eq!(batch.plan()?.submissions(), 10);
    /// batch.submit()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn split_by(&mut self, split: Split) {
        self.split = Some(split);
    }

    /// Records `ops` under a name, which shows in errors and profiles. Scopes nest.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let (x, short) = (device.zeros::<u32>(4)?, device.zeros::<u32>(2)?);
    /// let mut batch = device.batch();
    /// batch.scope("layer 3", |batch| batch.copy(&x, &short));
    /// let error = batch.submit().unwrap_err();
    /// assert_eq!(error.label(), Some("layer 3"));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn scope<R>(&mut self, name: &str, ops: impl FnOnce(&mut Self) -> R) -> R {
        let scope = self.recorder().resources.names.open_scope(name);
        let result = ops(self);
        self.recorder().resources.names.close_scope(scope);
        result
    }

    /// Profiles the batch, op by op: host and device time, the kernel that executed each op, and the ops fused with it.
    ///
    /// The plan, passes and submissions stay the same. Call it first to also time recording. The guide
    /// `docs/guides/profiling.md` lists the costs.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let profile = batch.profile();
    /// let x = batch.upload(&[1.0_f32; 1024], [1024]);
    /// let y = batch.exp(x);
    /// let y = batch.relu(y);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// let profile = profile.wait()?;
    /// assert_eq!(profile.ops()[1].kernel(), Some("exp+relu"));
    /// assert_eq!(profile.ops()[1].fused_with(), [2]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn profile(&mut self) -> Reading<Profile> {
        let (completion, readback, log) = (self.completion(), self.readback(), self.logged());
        readback.set_log(&log);
        Reading::new(completion, readback, 0, 0)
    }

    /// Number of ops recorded, not counting barriers and splits.
    #[must_use]
    pub fn num_ops(&self) -> usize {
        self.recorder.as_ref().map_or(0, |recorder| recorder.count())
    }

    /// Number of distinct buffers and scratch slots used so far.
    #[must_use]
    pub fn num_slots(&self) -> usize {
        self.recorder.as_ref().map_or(0, |recorder| recorder.recording.slots.len())
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
    /// let mut batch = device.batch();
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
    fn launch(mut self, at: &'static Location<'static>, wait: bool) -> Result<Arc<Completion>> {
        let core = self.core.clone();
        let _inside = core.enter();
        let completion = self.completion();
        if self.log.is_none() && core.notes().is_on() {
            // The batch began before the device was watched, so its recording time is unknown.
            self.log = Some(Arc::new(Log::new()));
        }
        if let Some(log) = self.log.clone() {
            self.readback().set_log(&log);
        }
        let mut recorder = self.recorder.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        let outcome = match self.prepare(&mut recorder) {
            Ok((planned, cuts)) => core.backend().launch(Launch {
                planned: cuts.planned(&planned),
                cuts: &cuts,
                source: RunSource::Batch(&mut recorder.resources),
                completion: &completion,
                readback: self.readback.as_ref(),
                profiled: self.log.as_ref().map(|log| Profiled {
                    log,
                    watchers: core.notes().watchers(),
                    device: core.info(),
                }),
                at,
                wait,
            }),
            Err(error) => {
                let error = launch::attribute(error, &recorder.resources.blocks, |error| core.explain(error), at);
                Err(launch::refuse(error, &completion, core.counters()))
            }
        };
        recorder.give_back();
        outcome.map(|()| completion)
    }

    /// Collects all mistakes, then finds the plan and its cuts.
    fn prepare(&self, recorder: &mut Recorder) -> Result<(Arc<CachedPlan>, Arc<Cuts>)> {
        if let Some(mistakes) = Error::all(recorder.mistakes()) {
            return Err(mistakes);
        }
        if !recorder.recording.inputs.is_empty() || !recorder.recording.outputs.is_empty() {
            let message = "this batch has inputs or outputs: `freeze` it, and submit runs of the replay";
            return Err(Error::new(ErrorKind::Bindings, message));
        }
        self.core.lost().check()?;
        let log = self.log.as_deref();
        if let Some(log) = log {
            log.stage(StageKind::Record, 0, log.zero(), Instant::now());
        }
        let planned = Log::time(log, StageKind::Plan, || self.core.plan(&recorder.recording))?;
        let cuts = self.cuts(&planned, &recorder.resources);
        Ok((planned, cuts))
    }

    /// The cuts of the plan.
    fn cuts(&self, planned: &CachedPlan, resources: &Resources) -> Arc<Cuts> {
        let (core, split) = (&self.core, self.split.unwrap_or(self.core.policy().split));
        planned.cuts(core.costs(), core.limits(), resources, split.rule(), core.abilities().divides)
    }

    #[track_caller]
    fn no_scratch(&mut self, error: Error) -> u32 {
        self.recorder().refuse(error, Location::caller());
        self.recorder().scratch(4).0
    }

    #[inline]
    fn op_recorder(&mut self) -> OpRecorder<'_> {
        let recorder = self.recorder.as_mut().unwrap_or_else(|| unreachable!("submit takes the batch"));
        OpRecorder { core: &self.core, batch: self.id, recorder }
    }

    #[inline]
    fn recorder(&mut self) -> &mut Recorder {
        self.recorder.as_mut().unwrap_or_else(|| unreachable!("submit takes the batch"))
    }

    fn completion(&mut self) -> Arc<Completion> {
        self.completion.get_or_insert_with(|| Arc::new(Completion::new())).clone()
    }

    fn readback(&mut self) -> Arc<BatchReadback> {
        self.readback.get_or_insert_default().clone()
    }

    fn logged(&mut self) -> Arc<Log> {
        if self.log.is_none() {
            self.recorder().resources.names.keep_times();
        }
        self.log.get_or_insert_with(|| Arc::new(Log::new())).clone()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            if let Some(completion) = &self.completion {
                completion
                    .finish(Err(Error::new(ErrorKind::Canceled, "the batch was dropped before it was submitted")));
            }
            recorder.give_back();
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("ops", &self.num_ops()).field("slots", &self.num_slots()).finish_non_exhaustive()
    }
}
