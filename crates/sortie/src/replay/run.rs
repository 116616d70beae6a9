//! One run of a replay.

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;
use smallvec::SmallVec;

use super::{Input, Output, ReplayInner, check::ReplayCheck};
use crate::{
    clock::Instant,
    error::{CallSite, Error, ErrorKind, Result},
    finish::{BatchReadback, Completion, Reading, Ticket},
    launch::{self, Launch, Profiled, RunSource},
    memory::{host, index},
    plan::RunArgs,
    profile::{Log, Profile, StageKind},
    tensor::Element,
};

/// One run of a [`Replay`](super::Replay): its input data, and the outputs it reads.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let batch = device.batch();
/// # let (input, x) = batch.input::<f32>([2]);
/// # let out = (x * 2.0).output();
/// # let replay = batch.freeze()?;
/// // Several in flight: each has its own data, and they run in this order.
/// let mut readings = Vec::new();
/// for step in 0..4 {
///     let mut run = replay.run();
///     run.write(input, &[step as f32; 2]);
///     readings.push(run.read(out));
///     run.submit_async()?;
/// }
/// for (step, reading) in readings.into_iter().enumerate() {
///     assert_eq!(reading.wait()?, [2.0 * step as f32; 2]);
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Run {{ inputs: {}, .. }}", given.len())]
pub struct Run {
    pub(super) parts: Arc<ReplayInner>,
    pub(super) run_args: RunArgs,
    /// Whether each input has data.
    pub(super) given: SmallVec<[bool; 8]>,
    mistakes: Vec<Error>,
    pub(super) completion: Arc<Completion>,
    /// Where readings get their data, if there are any.
    readback: Option<Arc<BatchReadback>>,
    submitted: bool,
}

impl Run {
    pub(super) fn new(parts: Arc<ReplayInner>) -> Self {
        let inputs = &parts.inputs;
        // An input without elements needs no data.
        let given = inputs.iter().map(|port| port.bytes == 0).collect();
        let bytes = index(inputs.bytes());
        let (data, mistakes) = match host::with_capacity(bytes) {
            Ok(mut data) => {
                data.resize(bytes, 0);
                (data, Vec::new())
            }
            Err(error) => (Vec::new(), vec![error]),
        };
        let run_args = RunArgs { data, ..RunArgs::default() };
        let completion = Arc::new(Completion::new());
        let watched = parts.core.notes.is_on();
        let mut run = Self { parts, run_args, given, mistakes, completion, readback: None, submitted: false };
        if watched {
            run.log();
        }
        run
    }

    /// Profiles the run, op by op, like [`Batch::profile`](crate::Batch::profile). If the device has its own recording
    /// of the replay, the run is encoded instead, and its profile says so.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let (input, x) = batch.input::<f32>([4]);
    /// let out = (x * 2.0).output();
    /// let replay = batch.freeze()?;
    ///
    /// let mut run = replay.run();
    /// let profile = run.profile();
    /// run.write(input, &[1.0; 4]);
    /// let y = run.read(out);
    /// run.submit()?;
    /// println!("{}", profile.wait()?);
    /// # assert_eq!(y.wait()?, [2.0; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn profile(&mut self) -> Reading<Profile> {
        self.log();
        Reading::new(self.completion.clone(), self.readback.get_or_insert_default().clone(), 0, 0)
    }

    fn log(&mut self) {
        let log = self.run_args.log.get_or_insert_with(|| Arc::new(Log::new()));
        self.readback.get_or_insert_default().set_log(log);
    }

    /// Sets the data of an input.
    #[track_caller]
    pub fn write<T: Element>(&mut self, input: Input<T>, data: &[T]) {
        if let Err(error) = self.bring(input, data) {
            self.mistakes.push(error.at(Location::caller()));
        }
    }

    fn bring<T: Element>(&mut self, input: Input<T>, data: &[T]) -> Result<()> {
        let wrong = |kind: ErrorKind, message: String| Err(Error::new(kind, message));
        if input.len() != data.len() {
            let message = format!("write: {} elements into an input of {}", data.len(), input.len());
            return wrong(ErrorKind::Shape, message);
        }
        let inputs = &self.parts.inputs;
        let slot = input.slot.filter(|_| input.batch == self.parts.batch);
        let Some(at) = inputs.iter().position(|port| Some(port.slot) == slot) else {
            return wrong(ErrorKind::Bindings, "write: the input is of another replay".into());
        };
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let start = index(inputs[at].start);
        // If allocating the data failed, the run has that error already.
        if let Some(room) = self.run_args.data.get_mut(start..start + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.given[at] = true;
        Ok(())
    }

    /// Reads an output of this run. The data is available when the run is done.
    #[track_caller]
    pub fn read<T: Pod>(&mut self, output: Output<T>) -> Reading<T> {
        if output.batch != self.parts.batch {
            let error = Error::new(ErrorKind::Bindings, "read: the output is of another replay");
            self.mistakes.push(error.at(Location::caller()));
        } else if self.run_args.reads.contains(&output.start) {
            self.run_args.shared_readback = true;
        } else if output.bytes > 0 {
            self.run_args.reads.push(output.start);
        }
        let readback = self.readback.get_or_insert_default().clone();
        Reading::new(self.completion.clone(), readback, output.start, output.bytes)
    }

    /// Runs it and waits until it is done.
    ///
    /// # Errors
    /// All mistakes made with this run: data of the wrong size, handles of another replay, an input without data. Else
    /// as [`Batch::submit`](crate::Batch::submit).
    #[track_caller]
    pub fn submit(self) -> Result<()> {
        let here = Location::caller();
        let check = ReplayCheck::of(&self, here)?;
        self.launch(here, true)?;
        check.map_or(Ok(()), |check| check.compare(here))
    }

    /// Submits the run and returns at once. Never waits for the device.
    ///
    /// # Errors
    /// As [`Run::submit`], except for errors while it runs: the ticket reports those.
    #[track_caller]
    pub fn submit_async(self) -> Result<Ticket> {
        let here = Location::caller();
        let check = ReplayCheck::of(&self, here)?;
        let completion = self.launch(here, false)?;
        if let Some(check) = check {
            completion.wait()?;
            check.compare(here)?;
        }
        Ok(Ticket::new(completion))
    }

    /// Checks and launches. Readings get the error too.
    pub(super) fn launch(mut self, at: CallSite, wait: bool) -> Result<Arc<Completion>> {
        self.submitted = true;
        let (completion, core) = (self.completion.clone(), self.parts.core.clone());
        let _inside = core.backend.enter();
        if core.notes.is_on() {
            self.log();
        }
        let frozen = self.parts.frozen();
        if let Err(error) = self.check(at) {
            let error = launch::attribute(error, &frozen.resources.blocks, |error| core.backend.explain(error), at);
            return Err(launch::refuse(error, &completion, &core.counters));
        }
        let mut run_args = std::mem::take(&mut self.run_args);
        let cuts = self.parts.cuts(&frozen, &mut run_args, at);
        let log = run_args.log.clone().filter(|_| self.readback.is_some());
        if let Some(log) = &log {
            log.stage(StageKind::Record, 0, log.zero, Instant::now());
        }
        let launched = core.backend.launch(Launch {
            planned: &frozen.planned,
            cuts: &cuts,
            source: RunSource::Replay(&frozen, run_args),
            completion: &completion,
            readback: self.readback.as_ref(),
            profiled: log.as_ref().map(|log| Profiled { log, watchers: core.notes.watchers(), device: &core.info }),
            at,
            wait,
        });
        launched.map(|()| completion)
    }

    /// Finds all mistakes made with this run.
    fn check(&mut self, at: CallSite) -> Result<()> {
        if let Some(forgotten) = self.given.iter().position(|given| !given) {
            let count = self.given.len();
            let message = format!("input {} of {count} has no data in this run", forgotten + 1);
            self.mistakes.push(Error::new(ErrorKind::Bindings, message).at(at));
        }
        match Error::all(std::mem::take(&mut self.mistakes)) {
            Some(mistakes) => Err(mistakes),
            None => self.parts.core.lost.check(),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.submitted {
            let message = "the run was dropped before it was submitted";
            self.completion.finish(Err(Error::new(ErrorKind::Canceled, message)));
        }
    }
}
