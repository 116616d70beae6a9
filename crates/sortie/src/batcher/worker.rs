//! Devices as the workers of a batcher.

use std::{
    future::Future,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use sortie_batcher::{Driver, Error as BatcherError, IntoAnswers, IntoWorkers, Job, Stage, Threads};

use super::{
    device_job::{Answers, DeviceJob},
    fleet::Fleet,
};
use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    exit,
    finish::Ticket,
    submit::Here,
};

/// A [`DeviceJob`] as a [`Job`] whose workers are devices. [`Batcher::new`](crate::Batcher::new) creates it.
///
/// A lost device is opened again, and the job prepares its state again.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, batcher::{OnDevice, Rows}};
///
/// # let halves = Rows::<f32, f32>::new([1, 1], "
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
/// #     }
/// # ");
/// let batcher: Batcher<OnDevice<Rows<f32, f32>>> = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(vec![3.0])?, [1.5]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Debug)]
pub struct OnDevice<J>(J);

/// The state of a worker: the device and the job's state on it.
#[derive(derive_more::Debug)]
#[debug("DeviceWorker {{ device: {device:?}, .. }}")]
pub struct DeviceWorker<J: DeviceJob> {
    /// `None` if the job panicked, which may leave its state inconsistent, and could not be prepared again.
    ready: Option<J::Ready>,
    /// Dropped after the objects created on it.
    device: Device,
}

/// A batch of a [`DeviceJob`] in flight.
#[derive(derive_more::Debug)]
#[debug("DeviceRun {{ ticket: {ticket:?}, .. }}")]
pub struct DeviceRun<O> {
    ticket: Ticket,
    answers: Option<Answers<O>>,
}

/// The answers of a batch that a device has run, not yet extracted.
#[derive(derive_more::Debug)]
#[debug("DeviceAnswers {{ .. }}")]
pub struct DeviceAnswers<O>(Answers<O>);

impl<J: DeviceJob> Job for OnDevice<J> {
    type Input = J::Input;
    type Output = J::Output;
    type Worker = DeviceWorker<J>;
    type Answers = DeviceAnswers<J::Output>;
    type Running = DeviceRun<J::Output>;
    type Error = Error;

    fn name(&self) -> String {
        self.0.name()
    }

    fn start(&self, worker: &mut DeviceWorker<J>, inputs: &mut [J::Input]) -> Result<DeviceRun<J::Output>> {
        let DeviceWorker { ready, device } = worker;
        let Some(ready) = ready else { return Err(Error::internal("a job was not prepared")) };
        let (ticket, answers) = self.0.start(ready, device, inputs)?;
        Ok(DeviceRun { ticket, answers: Some(answers) })
    }

    fn start_here(&self, worker: &mut DeviceWorker<J>, inputs: &mut [J::Input]) -> Result<DeviceRun<J::Output>> {
        // The built-in CPU runs the batch on this thread; other devices are given it without a detour.
        let _here = Here::enter();
        self.start(worker, inputs)
    }

    fn runs_in_polls(&self) -> bool {
        true
    }

    fn rows(&self, input: &J::Input) -> usize {
        self.0.rows(input)
    }

    fn key(&self, input: &J::Input) -> u64 {
        self.0.key(input)
    }

    fn check(&self, input: &J::Input) -> Result<()> {
        self.0.check(input)
    }

    fn answer_immediately(&self, input: &J::Input) -> Option<J::Output> {
        self.0.answer_immediately(input)
    }

    fn split(&self, input: J::Input, rows: usize) -> Vec<J::Input> {
        self.0.split(input, rows)
    }

    fn join(&self, parts: Vec<J::Output>) -> J::Output {
        self.0.join(parts)
    }

    fn isolates(&self, stage: Stage, error: &Error) -> bool {
        may_be_of_an_input(stage, error.kind())
    }

    fn worker_failed(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::DeviceLost
    }

    fn recover(&self, worker: &mut DeviceWorker<J>, _: &Error) -> Result<()> {
        let device = worker.device.reopen()?;
        let ready = self.0.prepare(&device)?;
        *worker = DeviceWorker { ready: Some(ready), device };
        Ok(())
    }

    fn reset(&self, worker: &mut DeviceWorker<J>) -> Result<()> {
        // The state may be inconsistent, so a panic in its drop is attributed to the job.
        let inconsistent = worker.ready.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(inconsistent))));
        worker.ready = Some(self.0.prepare(&worker.device)?);
        Ok(())
    }

    fn is_traced(&self, worker: &DeviceWorker<J>) -> bool {
        worker.device.is_watched()
    }

    fn trace_waits(&self, worker: &DeviceWorker<J>, waits: &mut dyn Iterator<Item = Range<Instant>>) {
        worker.device.note("queue", &format!("{} waits", self.name()), waits.collect(), None);
    }

    fn trace_batch(&self, worker: &DeviceWorker<J>, ran: Range<Instant>, rows: usize) {
        let name = format!("batch of {}", self.name());
        worker.device.note("batcher", &name, vec![ran], Some(("rows", rows as u64)));
    }
}

/// Whether an input may have caused a failure. Failures of the device, memory or machine concern all inputs, and so do
/// errors while the device runs the batch.
fn may_be_of_an_input(stage: Stage, kind: ErrorKind) -> bool {
    let of_all = matches!(
        kind,
        ErrorKind::DeviceLost
            | ErrorKind::NoDevice
            | ErrorKind::OutOfMemory { .. }
            | ErrorKind::Overloaded
            | ErrorKind::Timeout
            | ErrorKind::Canceled
    );
    matches!(stage, Stage::Start | Stage::Answers) && !of_all
}

impl<O> Future for DeviceRun<O> {
    type Output = Result<DeviceAnswers<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(Pin::new(&mut self.ticket).poll(cx))?;
        let answers = self.answers.take().ok_or_else(|| Error::internal("a batch was polled after its end"))?;
        Poll::Ready(Ok(DeviceAnswers(answers)))
    }
}

impl<O> IntoAnswers<O, Error> for DeviceAnswers<O> {
    fn append_to(self, answers: &mut Vec<Result<O>>) -> Result<()> {
        answers.append(&mut (self.0)()?);
        Ok(())
    }
}

impl<J: DeviceJob> IntoWorkers<J> for &Fleet {
    type Job = OnDevice<J>;

    fn into_workers(self, job: J) -> Result<(Vec<DeviceWorker<J>>, OnDevice<J>), BatcherError> {
        let workers = self.devices().iter().map(|device| DeviceWorker::new(&job, device));
        Ok((workers.collect::<Result<_>>()?, OnDevice(job)))
    }

    fn driver(&self) -> Box<dyn Driver<OnDevice<J>>> {
        // These threads drop their devices when they end. The process must not exit during that.
        Box::new(Threads::named("sortie-batcher").on_start(exit::begin).on_close(exit::register_ending))
    }
}

macro_rules! workers_of {
    ($($devices:ty),*) => {$(
        impl<J: DeviceJob> IntoWorkers<J> for $devices {
            type Job = OnDevice<J>;

            fn into_workers(self, job: J) -> Result<(Vec<DeviceWorker<J>>, OnDevice<J>), BatcherError> {
                IntoWorkers::into_workers(&Fleet::from(self), job)
            }

            fn driver(&self) -> Box<dyn Driver<OnDevice<J>>> {
                IntoWorkers::<J>::driver(&&Fleet::from(self.clone()))
            }
        }
    )*};
}

workers_of!(Fleet, Device, &Device);

impl<J: DeviceJob> DeviceWorker<J> {
    /// Prepares the job for a device. A device that is already lost is opened again.
    fn new(job: &J, device: &Device) -> Result<Self> {
        let (device, ready) = match job.prepare(device) {
            Err(error) if error.kind() == ErrorKind::DeviceLost => {
                let device = device.reopen()?;
                let ready = job.prepare(&device)?;
                (device, ready)
            }
            ready => (device.clone(), ready?),
        };
        Ok(Self { ready: Some(ready), device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_caused_by_one_input_is_halved_and_what_concerns_all_is_not() {
        let out_of_memory = ErrorKind::OutOfMemory { wanted: 2, budget: 1 };
        let too_large = ErrorKind::TooLarge { wanted: 2, limit: 1 };
        for (stage, kind, expected) in [
            (Stage::Start, ErrorKind::Input, true),
            (Stage::Start, ErrorKind::JobPanicked, true),
            (Stage::Start, ErrorKind::Shape, true),
            (Stage::Start, too_large, true),
            (Stage::Start, ErrorKind::Internal, true),
            (Stage::Answers, ErrorKind::Shape, true),
            (Stage::Answers, ErrorKind::JobPanicked, true),
            // Failures of the device, the memory, the machine.
            (Stage::Start, ErrorKind::DeviceLost, false),
            (Stage::Start, out_of_memory, false),
            (Stage::Start, ErrorKind::Timeout, false),
            (Stage::Start, ErrorKind::Overloaded, false),
            (Stage::Answers, ErrorKind::DeviceLost, false),
            (Stage::Answers, ErrorKind::Canceled, false),
            // The device ran it, or the job is not ready.
            (Stage::Run, ErrorKind::Race, false),
            (Stage::Run, ErrorKind::Shape, false),
            (Stage::Reset, ErrorKind::JobPanicked, false),
            (Stage::Reset, ErrorKind::Shader, false),
        ] {
            assert_eq!(may_be_of_an_input(stage, kind), expected, "{stage:?} {kind:?}");
        }
    }
}
