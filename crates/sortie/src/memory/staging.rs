//! Host-visible buffers that batches write through and read back through.
//!
//! Queue writes would jump ahead of work not yet submitted, so uploads are copies encoded from a mapped buffer. Invariants: an
//! upload buffer on its shelf is mapped and ready to fill; a read-back buffer on its shelf is unmapped. Both are mapped again by
//! the submission that uses them (`map_buffer_on_submit`), so a warm loop makes no buffers.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{
    host,
    returns::{Returned, Returns},
    shelf::{self, Shelf},
};
use crate::{
    device::{Gpu, Signal},
    error::{Error, Result},
    exit,
    lost::Lost,
    metrics::{Count, Counters},
    options::PoolLimits,
};

#[derive(Debug)]
pub(crate) struct Staging {
    gpu: Gpu,
    lost: Arc<Lost>,
    max_bytes: u64,
    uploads: Mutex<Shelf<wgpu::Buffer>>,
    readbacks: Mutex<Shelf<wgpu::Buffer>>,
    counters: Arc<Counters>,
}

impl Staging {
    pub(crate) fn new(gpu: Gpu, lost: Arc<Lost>, max_bytes: u64, limits: PoolLimits, counters: Arc<Counters>) -> Self {
        let shelf = || Mutex::new(Shelf::new(limits));
        Self { gpu, lost, max_bytes, uploads: shelf(), readbacks: shelf(), counters }
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

    fn put_readback(&self, buffer: wgpu::Buffer) {
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
        shelf: &Mutex<Shelf<wgpu::Buffer>>,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped: bool,
    ) -> Result<wgpu::Buffer> {
        if bytes > self.max_bytes {
            return Err(Error::too_large("bytes staged in one batch", bytes, self.max_bytes));
        }
        let class = shelf::class(bytes).min(self.max_bytes);
        if let Some(buffer) = shelf.lock().take(class, |_| false) {
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

/// What a batch reads, on its way home.
#[derive(Debug)]
pub(crate) enum Returning {
    /// On wgpu: one buffer for all reads.
    Staged(Staged),
    /// On the built-in CPU: already the host's.
    Words(Arc<Returns>),
}

impl Returning {
    /// Whether it can be read; `None` until that is known.
    pub(crate) fn mapped(&self) -> Option<bool> {
        match self {
            Self::Staged(staged) => staged.mapped.get(),
            Self::Words(_) => Some(true),
        }
    }

    /// Waits until that is known, but no longer than `limit`.
    pub(crate) fn wait_mapped(&self, limit: Duration) {
        if let Self::Staged(staged) = self {
            staged.mapped.wait(limit);
        }
    }

    /// What it holds, once it can be read.
    pub(crate) fn land(&self) -> Readback {
        match self {
            Self::Staged(staged) => Readback::Mapped(staged.land()),
            Self::Words(returns) => Readback::Words(returns.land()),
        }
    }
}

/// A read-back buffer: its submission maps it.
#[derive(Debug)]
pub(crate) struct Staged {
    buffer: wgpu::Buffer,
    staging: Arc<Staging>,
    /// Whether it was mapped.
    mapped: Arc<Signal>,
}

impl Staged {
    /// The buffer is to be mapped by the submission of `last`.
    pub(crate) fn new(buffer: wgpu::Buffer, staging: Arc<Staging>, last: &wgpu::CommandEncoder) -> Self {
        let (mapped, guard) = Signal::new();
        last.map_buffer_on_submit(&buffer, wgpu::MapMode::Read, .., move |result| guard.set(result.is_ok()));
        Self { buffer, staging, mapped }
    }

    fn land(&self) -> Mapped {
        Mapped { buffer: Some(self.buffer.clone()), staging: self.staging.clone() }
    }
}

/// What a landed batch has read.
#[derive(Debug)]
pub(crate) enum Readback {
    Mapped(Mapped),
    Words(Returned),
}

impl Readback {
    /// Copies a read out.
    pub(crate) fn copy<T: bytemuck::Pod>(&self, start: u64, bytes: u64) -> Result<Vec<T>> {
        match self {
            Self::Mapped(mapped) => mapped.copy(start, bytes),
            Self::Words(returned) => returned.copy(start, narrow(bytes)?),
        }
    }

    /// As [`Readback::copy`], for whoever asks last: without a copy, where there is one already.
    pub(crate) fn take<T: bytemuck::Pod>(&self, start: u64, bytes: u64) -> Result<Vec<T>> {
        match self {
            Self::Mapped(mapped) => mapped.copy(start, bytes),
            Self::Words(returned) => returned.take(start, narrow(bytes)?),
        }
    }
}

fn narrow(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::too_large("bytes read at once", bytes, usize::MAX as u64))
}

/// A mapped buffer; goes back to its shelf when the last reading lets go of it.
#[derive(Debug)]
pub(crate) struct Mapped {
    buffer: Option<wgpu::Buffer>,
    staging: Arc<Staging>,
}

impl Mapped {
    fn copy<T: bytemuck::Pod>(&self, start: u64, bytes: u64) -> Result<Vec<T>> {
        let buffer = self.buffer.as_ref().unwrap_or_else(|| unreachable!("taken only in drop"));
        let view = buffer
            .get_mapped_range(start..start + bytes.next_multiple_of(4))
            .map_err(|error| Error::internal("a read-back buffer was not mapped").caused_by(error))
            .map_err(|error| self.staging.lost.explain(&self.staging.gpu, error))?;
        host::collect(&view[..narrow(bytes)?])
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            let _inside = exit::enter();
            self.staging.put_readback(buffer);
        }
    }
}
