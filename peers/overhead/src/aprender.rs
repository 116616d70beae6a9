//! aprender-compute, once called trueno: `GpuCommandBatch` with a pipeline cache that outlives the batch, on wgpu 27.
//!
//! Its ops are built in. Here it adds a vector of ones: the same result, for one more buffer to read. Every op of a batch has a buffer of its own
//! for its result.

use std::sync::Arc;

use trueno::backends::gpu::runtime::block_on;
use trueno::backends::gpu::wgpu::{Buffer, BufferDescriptor, BufferUsages, PollType};
use trueno::backends::gpu::{BufferId, GpuCommandBatch, GpuDevice, PipelineCache};

use crate::case::Case;
use crate::comparison::{Outcome, Runner};
use crate::dispatches::{ITEMS};

/// Opens the device whose name contains `name`.
fn open(name: &str) -> Outcome<GpuDevice> {
    let mut adapters = GpuDevice::list_adapters().into_iter();
    let (index, ..) = adapters.find(|(_, own, _)| own.contains(name)).ok_or("aprender-compute does not see it")?;
    Ok(GpuDevice::new_with_adapter_index(index)?)
}

/// What of a run is done anew each time.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// Nothing: a recorded batch with its buffers is executed again.
    Again,
    /// The recording, and so the buffers of all results.
    Record,
}

/// Additions as a batch.
pub(crate) struct Additions {
    device: GpuDevice,
    way: Way,
    case: Case,
    inputs: Vec<Arc<Buffer>>,
    ones: Arc<Buffer>,
    pipelines: PipelineCache,
    kept: Option<(GpuCommandBatch, BufferId)>,
}

impl Additions {
    /// Opens a device and makes the operands.
    pub(crate) fn new(adapter: &str, way: Way, case: Case) -> Outcome<Self> {
        let device = open(adapter)?;
        let inputs = match case {
            Case::Chain => 1,
            Case::Independent => case.dispatches().routes.len(),
        };
        let inputs = (0..inputs).map(|_| operand(&device, 0.0)).collect();
        let ones = operand(&device, 1.0);
        Ok(Self { device, way, case, inputs, ones, pipelines: PipelineCache::new(), kept: None })
    }

    fn record(&self, n: usize) -> (GpuCommandBatch, BufferId) {
        let mut batch = GpuCommandBatch::new(self.device.clone());
        let ones = batch.import_buffer(self.ones.clone(), ITEMS);
        let import = |input: &Arc<Buffer>| batch.import_buffer(input.clone(), ITEMS);
        let inputs: Vec<BufferId> = self.inputs.iter().map(import).collect();
        let mut result = inputs[0];
        for op in 0..n {
            let from = if self.case == Case::Chain { result } else { inputs[op % inputs.len()] };
            result = batch.add(from, ones);
        }
        (batch, result)
    }
}

impl Runner for Additions {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let kept = self.kept.take().filter(|_| self.way == Way::Again);
        let (mut batch, result) = kept.unwrap_or_else(|| self.record(n));
        block_on(batch.execute_with_cache(&mut self.pipelines))?;
        // Its own way to wait is to read a result: waiting without one is cheaper.
        self.device.device.poll(PollType::wait_indefinitely())?;
        self.kept = Some((batch, result));
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        let (batch, result) = self.kept.as_ref().ok_or("nothing has run")?;
        Ok(block_on(batch.read(*result))?[0] as u32)
    }

    fn begins_with_zeros(&self) -> bool {
        true
    }
}

fn operand(device: &GpuDevice, value: f32) -> Arc<Buffer> {
    let values = vec![value; ITEMS];
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    let buffer = device.device.create_buffer(&BufferDescriptor {
        label: None,
        size: bytes.len() as u64,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue.write_buffer(&buffer, 0, bytes);
    Arc::new(buffer)
}
