//! Host-visible buffers that batches write through and read back through.
//!
//! Queue writes would jump ahead of work not yet submitted, so uploads are copies encoded from a mapped buffer. Invariants: an
//! upload buffer on its shelf is mapped and ready to fill; a read-back buffer on its shelf is unmapped. Both are mapped again by
//! the submission that uses them (`map_buffer_on_submit`), so a warm loop makes no buffers.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Gpu, Signal, signal::SignalGuard};
use crate::{
    error::{Error, Result},
    lost::Lost,
    memory::{FreeList, free_list},
    metrics::{AtomicCounter, Counters},
    options::PoolLimits,
};

/// As many as batches with readbacks may sensibly be in flight.
const MOST_SIGNALS: usize = 16;

#[derive(Debug)]
pub(crate) struct Staging {
    gpu: Gpu,
    lost: Arc<Lost>,
    max_bytes: u64,
    uploads: Mutex<FreeList<wgpu::Buffer>>,
    readbacks: Mutex<FreeList<wgpu::Buffer>>,
    /// Signals of readbacks that are done.
    signals: Mutex<Vec<Arc<Signal>>>,
    counters: Arc<Counters>,
}

impl Staging {
    pub(crate) fn new(gpu: Gpu, lost: Arc<Lost>, max_bytes: u64, limits: PoolLimits, counters: Arc<Counters>) -> Self {
        let free_list = || Mutex::new(FreeList::new(limits));
        Self { gpu, lost, max_bytes, uploads: free_list(), readbacks: free_list(), signals: Mutex::default(), counters }
    }

    /// A signal for a readback.
    pub(super) fn signal(&self) -> (Arc<Signal>, SignalGuard) {
        let spare = self.signals.lock().pop();
        spare.map_or_else(Signal::new, Signal::again)
    }

    /// Keeps a signal that nothing waits for any more.
    pub(super) fn put_signal(&self, mut signal: Arc<Signal>) {
        if Signal::reset(&mut signal) {
            let mut signals = self.signals.lock();
            if signals.len() < MOST_SIGNALS {
                signals.push(signal);
            }
        }
    }

    /// Bytes of the largest that can be had.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// A mapped buffer, filled by `fill` and unmapped, ready to be copied from.
    pub(crate) fn upload(&self, bytes: u64, fill: impl FnOnce(&mut wgpu::BufferViewMut)) -> Result<wgpu::Buffer> {
        let buffer =
            self.take(&self.uploads, bytes, wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC, true)?;
        let mut view = buffer
            .get_mapped_range_mut(..bytes)
            .map_err(|error| Error::internal("an upload buffer was not mapped").caused_by(error))?;
        fill(&mut view);
        drop(view);
        buffer.unmap();
        Ok(buffer)
    }

    /// Takes an upload buffer back as soon as the submission of `last` has read it, mapped again for the next batch to fill.
    pub(crate) fn reclaim(self: &Arc<Self>, buffer: &wgpu::Buffer, last: &wgpu::CommandEncoder) {
        let (staging, again) = (self.clone(), buffer.clone());
        last.map_buffer_on_submit(buffer, wgpu::MapMode::Write, .., move |result| {
            if result.is_ok() {
                staging.put_upload(again);
            }
        });
    }

    fn put_upload(&self, buffer: wgpu::Buffer) {
        // Bound first: what leaves the shelf is dropped after the lock is gone.
        let gone = self.uploads.lock().put(buffer.size(), buffer);
        drop(gone);
    }

    pub(crate) fn readback(&self, bytes: u64) -> Result<wgpu::Buffer> {
        self.take(&self.readbacks, bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST, false)
    }

    /// An error that may come of a lost device, told as such.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.lost.explain(&self.gpu, error)
    }

    /// Takes a mapped read-back buffer back.
    pub(super) fn put_readback(&self, buffer: wgpu::Buffer) {
        let scopes = self.gpu.scopes();
        buffer.unmap();
        if scopes.pop(|| "an unmapping".into(), 0).is_err() {
            // The device is gone, and the buffer with it.
            return;
        }
        let gone = self.readbacks.lock().put(buffer.size(), buffer);
        drop(gone);
    }

    pub(crate) fn trim(&self) {
        let gone = (self.uploads.lock().drain(), self.readbacks.lock().drain());
        drop(gone);
    }

    fn take(
        &self,
        free_list: &Mutex<FreeList<wgpu::Buffer>>,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped: bool,
    ) -> Result<wgpu::Buffer> {
        if bytes > self.max_bytes {
            return Err(Error::too_large("bytes staged in one batch", bytes, self.max_bytes));
        }
        let class = free_list::class(bytes).min(self.max_bytes);
        if let Some(buffer) = free_list.lock().take(class, |_| false) {
            self.counters.buffers_recycled.add(1);
            return Ok(buffer);
        }
        let scopes = self.gpu.scopes();
        let buffer = self.gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie staging"),
            size: class,
            usage,
            mapped_at_creation: mapped,
        });
        scopes.pop(|| format!("a staging buffer of {class} bytes"), class)?;
        self.counters.buffers_created.add(1);
        Ok(buffer)
    }
}
