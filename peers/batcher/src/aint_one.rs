//! batch-aint-one: a task of tokio's forms batches, each of which is processed in a task of its own.

use std::sync::Arc;

use batch_aint_one::{Batcher, BatchingPolicy, Limits, Processor};

use crate::blocking::Blocking;
use crate::callers::Service;
use crate::device::Device;

#[derive(Clone)]
struct Forward(Arc<Device>, Blocking);

/// Its batcher.
pub(crate) struct AintOne(Batcher<Forward>);

impl AintOne {
    /// With room for `callers` requests, and `batches` batches at once. Must be called within the runtime.
    pub(crate) fn new(device: Arc<Device>, limit: usize, callers: usize, batches: usize, blocking: Blocking) -> Self {
        let limits = Limits::builder()
            .max_batch_size(limit)
            .max_key_concurrency(batches)
            .max_key_queued_items(callers.max(limit))
            .build();
        let batcher = Batcher::builder().name("forward").processor(Forward(device, blocking)).limits(limits);
        Self(batcher.batching_policy(BatchingPolicy::Immediate).build())
    }
}

impl Service for AintOne {
    async fn call(&self, input: u64) -> Result<u64, String> {
        self.0.add((), input).await.map_err(|error| error.to_string())
    }
}

impl Processor for Forward {
    type Key = ();
    type Input = u64;
    type Output = u64;
    type Error = String;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), String> {
        Ok(())
    }

    async fn process(&self, (): (), inputs: impl Iterator<Item = u64> + Send, (): ()) -> Result<Vec<u64>, String> {
        self.1.run(&self.0, inputs.collect()).await
    }
}
