//! aprender-compute, once called trueno: `GpuCommandBatch` with a pipeline cache that outlives the batch, on wgpu 27.
//!
//! Its gelu is the approximation by tanh, which is the cheaper one. It does not broadcast: vectors are spelt out to the size of the matrix.

use std::sync::Arc;
use std::time::Instant;

use trueno::backends::gpu::runtime::block_on;
use trueno::backends::gpu::wgpu::{Buffer, BufferDescriptor, BufferUsages, PollType};
use trueno::backends::gpu::{BufferId, GpuCommandBatch, GpuDevice, GpuMatmulCache, PipelineCache};

use crate::comparison::{Outcome, Run, Runner};
use crate::operands::{ChainOperands, ProductOperands, ROWS, SIDE};

/// Opens the device whose name contains `name`, and gives that name in full.
pub(crate) fn open(name: &str) -> Outcome<(GpuDevice, String)> {
    let mut adapters = GpuDevice::list_adapters().into_iter();
    let (index, found, backend) =
        adapters.find(|(_, own, _)| own.contains(name)).ok_or("aprender-compute does not see it")?;
    Ok((GpuDevice::new_with_adapter_index(index)?, format!("{found} ({backend})")))
}

/// What of a run is done anew each time.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// Nothing: a recorded batch with its buffers is executed again. The fastest way there is.
    Again,
    /// The recording, and so the buffers of all results; operands are resident.
    Record,
    /// The recording and the uploads, as its documentation does it.
    Upload,
}

/// An operand, here and on the device.
struct Operand {
    data: Vec<f32>,
    buffer: Arc<Buffer>,
}

impl Operand {
    fn new(device: &GpuDevice, data: Vec<f32>) -> Self {
        let bytes: &[u8] = bytemuck::cast_slice(&data);
        let buffer = device.device.create_buffer(&BufferDescriptor {
            label: None,
            size: bytes.len() as u64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        device.queue.write_buffer(&buffer, 0, bytes);
        Self { data, buffer: Arc::new(buffer) }
    }
}

/// Operations on operands, in the order they were given.
type Operations = fn(&mut GpuCommandBatch, &[BufferId]) -> BufferId;

/// Operations as a batch.
pub(crate) struct Program {
    device: GpuDevice,
    way: Way,
    operands: Vec<Operand>,
    operations: Operations,
    pipelines: PipelineCache,
    kept: Option<(GpuCommandBatch, BufferId)>,
}

impl Program {
    /// The chain. Vectors are repeated for each row.
    pub(crate) fn chain(device: &GpuDevice, way: Way) -> Self {
        let ChainOperands { x, w, b } = ChainOperands::new();
        Self::new(device, way, vec![x, w.repeat(ROWS), b.repeat(ROWS)], |batch, operands| {
            let [x, w, b] = operands else { unreachable!("the chain has three operands") };
            let v = batch.mul(*x, *w);
            let v = batch.add(v, *b);
            let g = batch.gelu(v);
            let s = batch.sigmoid(g);
            let y = batch.mul(g, s);
            batch.add(y, *x)
        })
    }

    /// The product.
    pub(crate) fn product(device: &GpuDevice, way: Way) -> Self {
        let ProductOperands { a, b } = ProductOperands::new();
        Self::new(device, way, vec![a, b], |batch, operands| {
            let [a, b] = operands else { unreachable!("the product has two operands") };
            let side = SIDE as u32;
            batch.matmul(*a, *b, side, side, side)
        })
    }

    fn new(device: &GpuDevice, way: Way, operands: Vec<Vec<f32>>, operations: Operations) -> Self {
        let operands = operands.into_iter().map(|data| Operand::new(device, data)).collect();
        Self { device: device.clone(), way, operands, operations, pipelines: PipelineCache::new(), kept: None }
    }

    fn record(&self) -> (GpuCommandBatch, BufferId) {
        let mut batch = GpuCommandBatch::new(self.device.clone());
        let bring = |operand: &Operand| match self.way {
            Way::Upload => batch.upload(&operand.data),
            Way::Again | Way::Record => batch.import_buffer(operand.buffer.clone(), operand.data.len()),
        };
        let operands: Vec<BufferId> = self.operands.iter().map(bring).collect();
        let result = (self.operations)(&mut batch, &operands);
        (batch, result)
    }
}

impl Runner for Program {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        let (mut batch, result) = self.kept.take().unwrap_or_else(|| self.record());
        block_on(batch.execute_with_cache(&mut self.pipelines))?;
        // Its own way to wait is to read a result: waiting without one is cheaper.
        self.device.device.poll(PollType::wait_indefinitely())?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        let answer = if wanted { block_on(batch.read(result))? } else { Vec::new() };
        if self.way == Way::Again {
            self.kept = Some((batch, result));
        }
        Ok((time, answer))
    }
}

/// The product by its `GpuMatmulCache`: another kernel, with larger tiles. It takes the left matrix from the host and puts the result there,
/// and there is no other way to it.
pub(crate) struct CachedProduct {
    cache: GpuMatmulCache,
    left: Vec<f32>,
    result: Vec<f32>,
}

impl CachedProduct {
    /// Uploads the right matrix.
    pub(crate) fn new(device: &GpuDevice) -> Self {
        let ProductOperands { a, b } = ProductOperands::new();
        let mut cache = GpuMatmulCache::new(device.device.clone(), device.queue.clone());
        cache.upload_weight("b", &b, SIDE, SIDE);
        Self { cache, left: a, result: vec![0.0; SIDE * SIDE] }
    }
}

impl Runner for CachedProduct {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        self.cache.matmul_cached("b", &self.left, &mut self.result, SIDE)?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { self.result.clone() } else { Vec::new() }))
    }
}
