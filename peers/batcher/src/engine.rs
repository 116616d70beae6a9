//! amate: threads of its own take what is queued. How answers come back is left to its user: here by tokio's oneshot.

use std::sync::Arc;
use std::time::Duration;

use ::amate::{Batching, Config, Engine, Queued};
use tokio::sync::oneshot;

use crate::callers::Service;
use crate::device::Device;

/// A request, and where its answer goes.
type Item = (u64, oneshot::Sender<u64>);

struct Forward(Arc<Device>);

/// Its engine.
pub(crate) struct Amate(Engine<Item>);

impl Amate {
    /// So many threads, each with a batch of its own.
    pub(crate) fn new(device: Arc<Device>, limit: usize, workers: usize) -> Self {
        let config = Config { max_batch: limit, workers, capacity: None, waits_unannounced: false };
        Self(Engine::start(Forward(device), config, |worker| format!("amate-{worker}")))
    }
}

impl Service for Amate {
    async fn call(&self, input: u64) -> Result<u64, String> {
        let (sender, receiver) = oneshot::channel();
        self.0.submit(None, (input, sender)).map_err(|_| "its queue is full")?;
        receiver.await.map_err(|error| error.to_string())
    }
}

impl Batching for Forward {
    type Item = Item;

    fn weight(&self, _: &Item) -> usize {
        1
    }

    fn wanted(&self, (_, sender): &Item) -> bool {
        !sender.is_closed()
    }

    fn window(&self) -> Duration {
        Duration::ZERO
    }

    fn run(&self, batch: Vec<Queued<Item>>) {
        let mut rows: Vec<u64> = batch.iter().map(|queued| queued.item.0).collect();
        self.0.run(&mut rows);
        for (queued, row) in batch.into_iter().zip(rows) {
            // The caller may have gone.
            queued.item.1.send(row).ok();
        }
    }
}
