//! Readback of a batch on wgpu: one mapped buffer for all reads.
//!
//! Invariant: the buffer returns to its free list only after it was mapped, when the last reading is dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Signal, staging::Staging};
use crate::{
    error::{Error, Result},
    exit::{self, EnterOnDrop, LeaveOnDrop},
    finish::{PendingReadback, ReadReady},
};

/// A readback buffer, which its submission maps.
#[derive(Debug)]
pub(crate) struct MappedReadback {
    _entering: EnterOnDrop,
    buffer: wgpu::Buffer,
    staging: Arc<Staging>,
    /// Whether it is mapped; taken only in `drop`.
    mapped: Option<Arc<Signal>>,
    /// The batch is done, and the buffer can be reused.
    ready: AtomicBool,
    _leaving: LeaveOnDrop,
}

impl MappedReadback {
    /// The submission of `last` maps the buffer.
    pub(crate) fn new(buffer: wgpu::Buffer, staging: Arc<Staging>, last: &wgpu::CommandEncoder) -> Self {
        let (mapped, guard) = staging.signal();
        last.map_buffer_on_submit(&buffer, wgpu::MapMode::Read, .., move |result| guard.set(result.is_ok()));
        Self {
            _entering: EnterOnDrop(true),
            buffer,
            staging,
            mapped: Some(mapped),
            ready: AtomicBool::new(false),
            _leaving: LeaveOnDrop(true),
        }
    }
}

impl PendingReadback for MappedReadback {
    fn mapped(&self) -> Option<bool> {
        self.mapped.as_ref().and_then(|mapped| mapped.get())
    }

    fn wait_mapped(&self, limit: Duration) {
        if let Some(mapped) = &self.mapped {
            mapped.wait(limit);
        }
    }

    fn ready(self: Arc<Self>) -> Arc<dyn ReadReady> {
        self.ready.store(true, Ordering::Relaxed);
        self
    }
}

impl ReadReady for MappedReadback {
    fn with(&self, at: u64, bytes: usize, then: &mut dyn FnMut(&[u8])) -> Result<()> {
        let failed =
            |error| self.staging.explain(Error::internal("a read-back buffer was not mapped").caused_by(error));
        let range = at..at + (bytes as u64).next_multiple_of(4);
        let view = self.buffer.get_mapped_range(range).map_err(failed)?;
        then(&view[..bytes]);
        Ok(())
    }

    /// Mapped memory belongs to the driver and cannot be moved out.
    fn take(&self, _at: u64) -> Option<Vec<u32>> {
        None
    }
}

impl Drop for MappedReadback {
    fn drop(&mut self) {
        if *self.ready.get_mut() {
            let _inside = exit::enter();
            self.staging.put_readback(self.buffer.clone());
            if let Some(mapped) = self.mapped.take() {
                self.staging.put_signal(mapped);
            }
        }
    }
}
