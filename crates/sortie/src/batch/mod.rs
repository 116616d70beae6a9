//! Recording: ops are appended as plain data, and nothing touches the device until the batch is submitted.
//!
//! Recording never fails. A mistake is kept with the op's number, its label and the line that recorded it, and `submit` returns all of
//! them before anything runs.

mod bind;
mod dispatch;
mod download;
mod freeze;
mod grid;
mod outlook;
mod record;
mod tape;
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
use sortie_plan::{Caps, Op, OpKind, SlotId};

pub(crate) use self::bind::Place;
use self::tape::Tape;
pub use self::{
    bind::{Bind, Slot, Typed},
    dispatch::Dispatch,
    grid::{Extent, Grid},
    outlook::Outlook,
    record::Record,
};
use crate::{
    clock::Instant,
    device::{Device, Shared},
    encode::{Commands, Payload, Planned, Route},
    error::{Error, ErrorKind, Result},
    finish::{Completion, Landing, Reading, Ticket},
    info::DeviceKind,
    launch::Outbound,
    memory::Block,
    policy::Split,
    profile::{Log, Profile, StageKind},
    submit::{Hold, Logged, poisoned},
};

/// Operations being recorded, to run together as one submission.
///
/// Ops run as if one after the other, in the order they were recorded; the planner finds what depends on what and puts the rest side by
/// side. There is no barrier to forget.
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
    shared: Arc<Shared>,
    id: u64,
    /// `None` once submitted.
    tape: Option<Box<Tape>>,
    /// Made by the first read, or by submitting.
    completion: Option<Arc<Completion>>,
    /// Where its readings will find their data, once there is one.
    landing: Option<Arc<Landing>>,
    /// Where it is cut; `None`: as the device's policy says.
    split: Option<Split>,
    /// Where somebody wants to know what it takes.
    log: Option<Arc<Log>>,
}

/// What recording an op needs, borrowed piece by piece.
struct Recorder<'a> {
    shared: &'a Arc<Shared>,
    batch: u64,
    tape: &'a mut Tape,
}

impl Device {
    /// Begins a batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(self.shared().clone())
    }
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut batch = Self {
            shared,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tape: Some(Tape::take()),
            completion: None,
            landing: None,
            split: None,
            log: None,
        };
        if batch.shared.notes().is_on() {
            batch.logged();
        }
        batch
    }

    /// Memory for `len` elements that lives as long as this batch. It reads as zero where nothing has been written.
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
        let limit = self.shared.limits().buffer_bytes;
        let index = match bytes {
            Ok(bytes) if bytes <= limit => self.tape().scratch(bytes.next_multiple_of(4)).0,
            Ok(bytes) => self.no_scratch(Error::too_large("scratch: bytes in one buffer", bytes, limit)),
            Err(error) => self.no_scratch(error),
        };
        Slot { batch: self.id, index, len, elements: PhantomData }
    }

    /// Makes everything recorded after see everything recorded before. Never needed for correctness: a fence for the planner only.
    #[track_caller]
    pub fn barrier(&mut self) {
        self.tape().fence(OpKind::Barrier, Location::caller());
    }

    /// Ends a submission here: what follows goes to the device in a submission of its own.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let mut batch = device.batch();
    /// batch.fill(&x, 1);
    /// batch.split(); // the device can begin with what is above
    /// batch.fill(&x, 2);
    /// assert_eq!(batch.plan()?.submissions(), 2);
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [2; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&mut self) {
        self.tape().fence(OpKind::Split, Location::caller());
    }

    /// Cuts this batch into submissions in a way of its own, whatever the device's [policy](crate::SubmitPolicy) says.
    ///
    /// ```
    /// use sortie::Split;
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
        let scope = self.tape().payload.names.open_scope(name);
        let result = ops(self);
        self.tape().payload.names.close_scope(scope);
        result
    }

    /// Asks what the batch takes, op by op: what the host and the device need for each, which kernel it became and what it was fused with.
    ///
    /// Nothing else changes: the same plan, passes and submissions. Asked first, it also tells how long recording took. See the guide `docs/guides/profiling.md` for what it costs.
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
        let (completion, landing, log) = (self.completion(), self.landing(), self.logged());
        landing.set_log(&log);
        Reading::new(completion, landing, 0, 0)
    }

    /// Number of ops recorded, not counting barriers and splits.
    #[must_use]
    pub fn num_ops(&self) -> usize {
        self.tape.as_ref().map_or(0, |tape| tape.count())
    }

    /// Number of distinct pieces of memory named so far: buffers and scratch.
    #[must_use]
    pub fn num_slots(&self) -> usize {
        self.tape.as_ref().map_or(0, |tape| tape.recording.slots.len())
    }

    /// Runs the batch and waits until it is done.
    ///
    /// # Errors
    /// All mistakes made while recording, before anything runs; then whatever stops the batch from being encoded
    /// ([`OutOfMemory`](ErrorKind::OutOfMemory), [`Poisoned`](ErrorKind::Poisoned)) or run ([`DeviceLost`](ErrorKind::DeviceLost); on the
    /// built-in CPU also [`Timeout`](ErrorKind::Timeout) and [`Race`](ErrorKind::Race), where they were asked for).
    #[track_caller]
    pub fn submit(self) -> Result<()> {
        let here = Location::caller();
        let shared = self.shared.clone();
        let _inside = shared.enter();
        let (outbound, completion) = self.outbound(here)?;
        shared.submitter().finish(outbound, &completion)
    }

    /// Hands the batch over and returns at once; it never waits for the device.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<u32>(4)?;
    /// let mut batch = device.batch();
    /// batch.fill(&x, 7);
    /// let reading = batch.read(&x);
    /// let ticket = batch.submit_async()?;
    /// // Something else is done meanwhile; then:
    /// assert_eq!(reading.wait()?, [7; 4]); // or `reading.await?`
    /// ticket.wait()?;
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::submit`], except for what happens while it runs: that is the ticket's.
    #[track_caller]
    pub fn submit_async(self) -> Result<Ticket> {
        let here = Location::caller();
        let shared = self.shared.clone();
        let _inside = shared.enter();
        let (outbound, completion) = self.outbound(here)?;
        shared.submitter().send(outbound);
        Ok(Ticket::new(completion))
    }

    /// Checks, plans and encodes. On an error the readings hear of it too.
    fn outbound(mut self, here: &'static Location<'static>) -> Result<(Outbound<Commands>, Arc<Completion>)> {
        let completion = self.completion();
        if self.log.is_none() && self.shared.notes().is_on() {
            // Begun before anybody watched: nobody knows when it was recorded.
            self.log = Some(Arc::new(Log::new()));
        }
        if let Some(log) = self.log.clone() {
            self.landing().set_log(&log);
        }
        let mut tape = self.tape.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        let outbound = self.encode(&mut tape, &completion, here).map_err(|error| match error.location() {
            Some(_) => error,
            None => Block::blame(tape.payload.blocks.iter().flatten(), self.shared.explain(error)).at(here),
        });
        tape.give_back();
        let outbound = Outbound::announce(outbound, self.shared.counters(), &completion)?;
        Ok((outbound, completion))
    }

    fn encode(
        &self,
        tape: &mut Tape,
        completion: &Arc<Completion>,
        here: &'static Location<'static>,
    ) -> Result<Outbound<Commands>> {
        if let Some(mistakes) = Error::all(tape.mistakes()) {
            return Err(mistakes);
        }
        if !tape.recording.inputs.is_empty() || !tape.recording.outputs.is_empty() {
            let message = "this batch has inputs or outputs: `freeze` it, and submit runs of the replay";
            return Err(Error::new(ErrorKind::Bindings, message));
        }
        self.shared.lost().check()?;
        let log = self.log.as_ref();
        if let Some(log) = log {
            log.stage(StageKind::Record, 0, log.zero(), Instant::now());
        }
        let planned = Log::time(log.map(|log| &**log), StageKind::Plan, || {
            let caps = self.caps();
            self.shared.executor().plan(&self.shared, &tape.recording, &caps)
        })?;
        check_poison(&tape.payload, &planned)?;
        let route = self.route(&planned, &tape.payload);
        let mut hold = Hold::new(completion.clone(), planned.touches.clone(), here);
        if let Some((log, landing)) = log.zip(self.landing.as_ref()) {
            hold.logged = Some(Logged::new(log.clone(), landing.clone(), self.shared.notes().watchers()));
        }
        let mut hand_over = self.shared.submitter().hand_over(&route, hold);
        let encoded = Log::time(log.map(|log| &**log), StageKind::Encode, || {
            self.shared.executor().encode(
                &self.shared,
                route.planned(&planned),
                &route.cuts,
                &mut tape.payload,
                log,
                &mut |commands, blocks| hand_over.leave(commands, || blocks.to_vec()),
            )
        });
        hand_over.finish(encoded, self.landing.as_ref(), || std::mem::take(&mut tape.payload.blocks))
    }

    /// Where it is cut.
    fn route(&self, planned: &Planned, payload: &Payload) -> Arc<Route> {
        let split = self.split.unwrap_or(self.shared.policy().split);
        planned.route(&self.shared, payload, split.rule(), !self.shared.is_cpu())
    }

    /// What the planner may do on this device.
    fn caps(&self) -> Caps {
        let planning = self.shared.options().planning;
        let (limits, host) = (self.shared.limits(), self.shared.is_cpu());
        Caps {
            reorder: planning.reorder,
            reuse: planning.reuse,
            fuse: planning.fuse,
            host,
            software: self.shared.kind() == DeviceKind::Software,
            product: self.shared.tuning().product_way(),
            // One is left for immediates, on devices that have none.
            storage_buffers: limits.storage_buffers - 1,
            params_align: limits.slice_alignment,
            max_groups: if host { u32::MAX } else { limits.groups },
            fill_binding_bytes: if host { u64::MAX } else { transfer::fill_binding_bytes(limits) },
        }
    }

    #[track_caller]
    fn no_scratch(&mut self, error: Error) -> u32 {
        self.tape().refuse(error, Location::caller());
        self.tape().scratch(4).0
    }

    #[inline]
    fn recorder(&mut self) -> Recorder<'_> {
        let tape = self.tape.as_mut().unwrap_or_else(|| unreachable!("submit takes the batch"));
        Recorder { shared: &self.shared, batch: self.id, tape }
    }

    #[inline]
    fn tape(&mut self) -> &mut Tape {
        self.tape.as_mut().unwrap_or_else(|| unreachable!("submit takes the batch"))
    }

    fn completion(&mut self) -> Arc<Completion> {
        self.completion.get_or_insert_with(|| Arc::new(Completion::new())).clone()
    }

    fn landing(&mut self) -> Arc<Landing> {
        self.landing.get_or_insert_default().clone()
    }

    fn logged(&mut self) -> Arc<Log> {
        if self.log.is_none() {
            self.tape().payload.names.keep_times();
        }
        self.log.get_or_insert_with(|| Arc::new(Log::new())).clone()
    }
}

/// An error for a slot of which the batch would see what a failed submission left behind.
pub(crate) fn check_poison(payload: &Payload, planned: &Planned) -> Result<()> {
    let blocks = (0u32..).map(SlotId).zip(&payload.blocks);
    for (slot, cause) in blocks.filter_map(|(slot, block)| Some((slot, block.as_ref()?.poisoned()?))) {
        if planned.touches.iter().find(|touch| touch.slot == slot).is_some_and(|touch| touch.needed) {
            let uses = |op: &Op| planned.recording.accesses_of(op).iter().any(|access| access.slot == slot);
            let first = planned.recording.ops.iter().position(uses).unwrap_or_default();
            return Err(payload.names.place(planned.origin(first), poisoned(cause)));
        }
    }
    Ok(())
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(tape) = self.tape.take() {
            if let Some(completion) = &self.completion {
                completion
                    .finish(Err(Error::new(ErrorKind::Canceled, "the batch was dropped before it was submitted")));
            }
            tape.give_back();
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("ops", &self.num_ops()).field("slots", &self.num_slots()).finish_non_exhaustive()
    }
}
