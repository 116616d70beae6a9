//! The items of a submit queue.

use std::sync::Arc;

use super::{
    device_queue::DeviceQueue,
    queue::Queued,
    submission::{ReadySubmission, Submission},
};
use crate::{
    error::Error,
    finish::Completion,
    memory::{Block, Sequence},
};

pub(crate) enum QueueItem<Q: DeviceQueue> {
    Submission(ReadySubmission<Q::Commands>),
    /// A submission that failed to encode, of a batch with earlier submissions already queued. It fails when its turn
    /// comes.
    Failed(Error, Submission),
    /// A write, and its target if a failure can be reported there.
    Write(Q::Write, Option<WriteTarget>),
    /// Submits writes without waiting for the next submission.
    Flush(Flush),
}

impl<Q: DeviceQueue> Queued for QueueItem<Q> {
    fn counts_in_flight(&self) -> bool {
        matches!(self, Self::Submission(_) | Self::Failed(..))
    }
}

/// The block that a write goes to.
pub(crate) struct WriteTarget {
    pub(super) block: Arc<Block>,
    /// Whether it overwrites the whole block.
    whole: bool,
    pub(super) sequence: Sequence,
}

impl WriteTarget {
    pub(crate) fn new(block: &Arc<Block>, whole: bool) -> Self {
        let sequence = Sequence::next();
        if whole {
            block.claim(sequence);
        }
        Self { block: block.clone(), whole, sequence }
    }

    /// The device has accepted the write.
    pub(super) fn written(&self, order: u64) {
        if self.whole {
            self.block.overwrite(order);
        }
    }
}

/// Completes when dropped: after its turn, or when its turn will never come.
pub(crate) struct Flush(pub(super) Arc<Completion>);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.finish(Ok(()));
    }
}
