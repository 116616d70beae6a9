//! ultra-batch: a task of tokio's forms a batch and executes it before it looks at the next one.

use std::sync::Arc;
use std::time::Duration;

use ultra_batch::{BatchExecutor, Executor};

use crate::blocking::Blocking;
use crate::callers::Service;
use crate::device::Device;

struct Forward(Arc<Device>);

/// Its executor.
pub(crate) struct Ultra(BatchExecutor<Forward>);

impl Ultra {
    /// That waits no longer once there are `eager` rows. To be made within the runtime.
    pub(crate) fn new(device: Arc<Device>, eager: usize) -> Self {
        let executor = BatchExecutor::build(Forward(device));
        Self(executor.eager_batch_size(Some(eager)).delay_duration(Duration::ZERO).finish())
    }
}

impl Service for Ultra {
    async fn call(&self, input: u64) -> Result<u64, String> {
        let answer = self.0.execute(input).await.map_err(|error| error.to_string())?;
        answer.ok_or_else(|| "no answer".into())
    }
}

impl Executor for Forward {
    type Value = u64;
    type Result = u64;
    type Error = String;

    async fn execute(&self, values: Vec<u64>) -> Result<Vec<u64>, String> {
        Blocking::InPlace.run(&self.0, values).await
    }
}
