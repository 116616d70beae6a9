//! Written by hand: tokio's mpsc to threads that take all queued requests, and a oneshot for each answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::callers::Service;
use crate::device::Device;

/// A request, and where its answer goes.
type Item = (u64, oneshot::Sender<u64>);

/// The sending end.
pub(crate) struct Channels(mpsc::UnboundedSender<Item>);

impl Channels {
    /// Starts `threads` threads, which end when this is dropped. With two, one forms a batch while that of the other runs.
    pub(crate) fn new(device: &Arc<Device>, limit: usize, threads: usize) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel::<Item>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let (device, receiver) = (device.clone(), receiver.clone());
            thread::spawn(move || {
                let (mut items, mut rows) = (Vec::with_capacity(limit), Vec::with_capacity(limit));
                let take = |items: &mut Vec<Item>| {
                    receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv_many(items, limit)
                };
                while take(&mut items) > 0 {
                    rows.extend(items.iter().map(|(input, _)| *input));
                    device.run(&mut rows);
                    for ((_, sender), row) in items.drain(..).zip(rows.drain(..)) {
                        // The caller may have gone.
                        sender.send(row).ok();
                    }
                }
            });
        }
        Self(sender)
    }
}

impl Service for Channels {
    async fn call(&self, input: u64) -> Result<u64, String> {
        let (sender, receiver) = oneshot::channel();
        self.0.send((input, sender)).map_err(|error| error.to_string())?;
        receiver.await.map_err(|error| error.to_string())
    }
}
