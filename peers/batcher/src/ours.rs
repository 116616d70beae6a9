//! sortie: a job that has the simulated device run its inputs, and one that really computes on sortie's own CPU device.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use sortie::{
    Batch, BatchConfig, Batcher, Grid, Kernel,
    batcher::{Answers, DeviceJob, IntoAnswers, IntoWorkers, Job},
};

use crate::callers::Service;
use crate::comparison::Outcome;
use crate::device::{Device, Run, answer};

/// As [`answer`](crate::device::answer) does it, in two halves.
const ANSWER: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<vec2<u32>>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] ^= vec2(0x7f4a7c15u, 0x9e3779b9u); }
    }
";

/// Begins a run when a batch starts, and waits for it when answers are wanted.
struct Simulated(Arc<Device>);

/// Lists of answers that are used again.
type Spare = Arc<Mutex<Vec<Vec<u64>>>>;

/// A run under way, and its answers.
struct Running {
    run: Run,
    answers: Vec<u64>,
    spare: Spare,
}

/// Uploads, dispatches and reads.
struct Computed;

/// A batcher with a job.
struct Ours<J: Job>(Batcher<J>);

/// On the simulated device.
pub(crate) fn simulated(device: Arc<Device>, limit: usize) -> Outcome<impl Service> {
    start([Spare::default()], Simulated(device), limit)
}

/// On sortie's own.
pub(crate) fn computed(limit: usize) -> Outcome<impl Service> {
    start(sortie::Device::cpu()?, Computed, limit)
}

/// All but the limit is as it comes.
fn start<T, W: IntoWorkers<T>>(workers: W, job: T, limit: usize) -> Outcome<Ours<W::Job>>
where
    <W::Job as Job>::Error: std::error::Error,
{
    let config = BatchConfig::default().with_max_batch_size(limit);
    Ok(Ours(Batcher::new(workers, job, config)?))
}

impl<J: Job<Input = u64, Output = u64>> Service for Ours<J> {
    async fn call(&self, input: u64) -> Result<u64, String> {
        self.0.call(input).await.map_err(|error| error.to_string())
    }
}

impl Job for Simulated {
    type Input = u64;
    type Output = u64;
    type Worker = Spare;
    type Answers = Running;
    type Running = Ready<sortie::Result<Running>>;
    type Error = sortie::Error;

    fn start(&self, spare: &mut Spare, inputs: &mut [u64]) -> sortie::Result<Self::Running> {
        let run = self.0.begin(inputs.len());
        let mut answers = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        answers.extend(inputs.iter().map(|input| answer(*input)));
        Ok(ready(Ok(Running { run, answers, spare: spare.clone() })))
    }

    fn runs_in_polls(&self) -> bool {
        true
    }
}

impl IntoAnswers<u64, sortie::Error> for Running {
    fn append_to(mut self, answers: &mut Vec<sortie::Result<u64>>) -> sortie::Result<()> {
        self.run.wait();
        answers.extend(self.answers.drain(..).map(Ok));
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(self.answers);
        Ok(())
    }
}

impl DeviceJob for Computed {
    type Input = u64;
    type Output = u64;
    type Ready = Kernel;

    fn prepare(&self, device: &sortie::Device) -> sortie::Result<Kernel> {
        device.kernel(ANSWER)
    }

    fn record(&self, kernel: &mut Kernel, batch: &Batch, inputs: &[u64]) -> sortie::Result<Answers<u64>> {
        let x = batch.scratch::<u64>(inputs.len());
        batch.write(x, inputs);
        batch.dispatch(kernel, &[&x.reinterpret::<[u32; 2]>()], Grid::items(inputs.len()));
        let x = batch.read(x);
        Ok(Box::new(move || Ok(x.wait()?.into_iter().map(Ok).collect())))
    }
}
