//! Host-visible buffers for the uploads and readbacks of batches.
//!
//! Queue writes would jump ahead of unsubmitted work, so uploads are encoded copies from a mapped buffer. Invariants:
//! an upload buffer in the free list is mapped and ready to fill; a readback buffer in the free list is unmapped. The
//! submission that uses a buffer maps it again (`map_buffer_on_submit`), so a warm loop creates no buffers.

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

/// As many as batches with readbacks can sensibly be in flight.
const MAX_SIGNALS: usize = 16;

#[derive(Debug)]
pub(crate) struct Staging {
    gpu: Gpu,
    lost: Arc<Lost>,
    /// Size of the largest staging buffer in bytes.
    pub(super) max_bytes: u64,
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

    /// Keeps a signal for reuse, once nothing waits for it.
    pub(super) fn put_signal(&self, mut signal: Arc<Signal>) {
        if Signal::reset(&mut signal) {
            let mut signals = self.signals.lock();
            if signals.len() < MAX_SIGNALS {
                signals.push(signal);
            }
        }
    }

    /// An upload buffer, filled by `fill` and unmapped, ready to be copied from.
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

    /// Returns an upload buffer to the free list when the submission of `last` is done, mapped for the next batch.
    pub(crate) fn reclaim(self: &Arc<Self>, buffer: &wgpu::Buffer, last: &wgpu::CommandEncoder) {
        let (staging, again) = (self.clone(), buffer.clone());
        last.map_buffer_on_submit(buffer, wgpu::MapMode::Write, .., move |result| {
            if result.is_ok() {
                staging.put_upload(again);
            }
        });
    }

    fn put_upload(&self, buffer: wgpu::Buffer) {
        // Bound to a name, so that evicted buffers are dropped after the lock is released.
        let gone = self.uploads.lock().put(buffer.size(), buffer);
        drop(gone);
    }

    pub(crate) fn readback(&self, bytes: u64) -> Result<wgpu::Buffer> {
        self.take(&self.readbacks, bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST, false)
    }

    /// Replaces an error caused by a lost device with `DeviceLost`.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.lost.explain(&self.gpu, error)
    }

    /// Returns a mapped readback buffer to the free list.
    pub(super) fn put_readback(&self, buffer: wgpu::Buffer) {
        let scopes = self.gpu.scopes();
        buffer.unmap();
        if scopes.pop(|| "an unmapping".into(), 0).is_err() {
            // The device is lost, and the buffer with it.
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
