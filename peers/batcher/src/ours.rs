//! sortie: a job that has the simulated device run its inputs, and one that really computes on sortie's own CPU device.

use std::sync::Arc;

use sortie::{
    Batch, BatchConfig, Batcher, Grid, Kernel,
    batcher::{Answers, DeviceJob, OnDevice},
};

use crate::callers::Service;
use crate::comparison::Outcome;
use crate::device::{Device, answer};

/// As [`answer`](crate::device::answer) does it, in two halves.
const ANSWER: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<vec2<u32>>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] ^= vec2(0x7f4a7c15u, 0x9e3779b9u); }
    }
";

/// Begins a run when a batch is recorded, and waits for it when answers are wanted.
struct Simulated(Arc<Device>);

/// Uploads, dispatches and reads.
struct Computed;

/// A batcher with a job.
struct Ours<J: DeviceJob>(Batcher<OnDevice<J>>);

/// On the simulated device.
pub(crate) fn simulated(device: Arc<Device>, limit: usize) -> Outcome<impl Service> {
    start(Simulated(device), limit)
}

/// On sortie's own.
pub(crate) fn computed(limit: usize) -> Outcome<impl Service> {
    start(Computed, limit)
}

/// All but the limit is as it comes.
fn start<J: DeviceJob>(job: J, limit: usize) -> Outcome<Ours<J>> {
    let config = BatchConfig::default().with_max_batch_size(limit);
    Ok(Ours(Batcher::new(&sortie::Device::cpu()?, job, config)?))
}

impl<J: DeviceJob<Input = u64, Output = u64>> Service for Ours<J> {
    async fn call(&self, input: u64) -> Result<u64, String> {
        self.0.call(input).await.map_err(|error| error.to_string())
    }
}

impl DeviceJob for Simulated {
    type Input = u64;
    type Output = u64;
    type Ready = ();

    fn prepare(&self, _: &sortie::Device) -> sortie::Result<()> {
        Ok(())
    }

    fn record(&self, (): &mut (), _: &Batch, inputs: &[u64]) -> sortie::Result<Answers<u64>> {
        let run = self.0.begin(inputs.len());
        let answers = inputs.iter().map(|input| Ok(answer(*input))).collect();
        Ok(Box::new(move || {
            run.wait();
            Ok(answers)
        }))
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
