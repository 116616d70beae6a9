//! Proof that commands in an encoder of the application have run.
//!
//! wgpu calls back after a submission that it refused as well: the application may have made a mistake of its own in the
//! same encoder. So the last command copies a number into a buffer of ours. Only commands that have run do that.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{MappedReadback, Staging};
use crate::{error::Result, finish::PendingReadback};

const BYTES: usize = size_of::<u64>();

/// A number that no other receipt has, and the buffers that it is copied between.
#[derive(Debug)]
pub(super) struct Receipt {
    number: u64,
    from: wgpu::Buffer,
    to: wgpu::Buffer,
}

/// A receipt that has been encoded.
#[derive(Debug)]
pub(super) struct EncodedReceipt {
    number: u64,
    mapped: Arc<MappedReadback>,
}

impl Receipt {
    pub(super) fn new(staging: &Staging) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let to = staging.readback(BYTES as u64)?;
        let from = staging.upload(BYTES as u64, |view| view.slice(..BYTES).copy_from_slice(&number.to_le_bytes()))?;
        Ok(Self { number, from, to })
    }

    /// Encodes it after everything that it stands for.
    pub(super) fn encode(self, staging: &Arc<Staging>, encoder: &mut wgpu::CommandEncoder) -> EncodedReceipt {
        let Self { number, from, to } = self;
        encoder.copy_buffer_to_buffer(&from, 0, &to, 0, BYTES as u64);
        staging.reclaim(&from, encoder);
        EncodedReceipt { number, mapped: Arc::new(MappedReadback::new(to, staging.clone(), encoder)) }
    }
}

impl EncodedReceipt {
    /// Whether the commands have run. The submission must be done.
    pub(super) fn has_arrived(self) -> bool {
        if self.mapped.mapped() != Some(true) {
            return false;
        }
        let mut arrived = false;
        let read = self.mapped.ready().with(0, BYTES, &mut |bytes| arrived = *bytes == self.number.to_le_bytes());
        read.is_ok() && arrived
    }

    /// Whether wgpu has mapped it, or failed to.
    pub(super) fn is_settled(&self) -> bool {
        self.mapped.mapped().is_some()
    }
}
