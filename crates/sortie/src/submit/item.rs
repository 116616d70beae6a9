//! What goes to a device's queue in order.

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

#[derive(Debug)]
pub(crate) enum QueueItem<Q: DeviceQueue> {
    Submission(ReadySubmission<Q::Commands>),
    /// A submission that could not be made, of a batch that has begun to leave: it fails when its turn comes.
    Failed(Error, Submission),
    /// A write, and what it is for if that can be told of a failure.
    Write(Q::Write, Option<WriteTarget>),
    /// Writes are to be submitted without waiting for the next submission.
    Flush(Flush),
}

impl<Q: DeviceQueue> Queued for QueueItem<Q> {
    fn counts_in_flight(&self) -> bool {
        matches!(self, Self::Submission(_) | Self::Failed(..))
    }
}

/// What a write is for.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    pub(super) block: Arc<Block>,
    /// It overwrites all of it.
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

    /// The write has taken effect.
    pub(super) fn written(&self, order: u64) {
        if self.whole {
            self.block.overwrite(order);
        }
    }
}

/// Completes when it is dropped: its turn has ended, or will never come.
#[derive(Debug)]
pub(crate) struct Flush(pub(super) Arc<Completion>);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.finish(Ok(()));
    }
}
