//! Writes outside batches, in order with submissions and bounded by [`StagedBytes`](super::staged_bytes::StagedBytes).

use std::sync::Arc;

use super::{
    device_queue::DeviceQueue,
    item::{Flush, QueueItem, WriteTarget},
    submitter::{SLICE, Submitter},
};
use crate::{error::Result, exit, finish::Completion, memory::Block};

impl<Q: DeviceQueue> Submitter<Q> {
    /// Makes room for a write: if too many bytes would be staged, submits all writes and waits until the device has
    /// executed them.
    pub(crate) fn make_room(&self, bytes: u64) {
        if self.staged.is_full(bytes) {
            self.device.reap();
            if self.staged.is_full(bytes) {
                self.flush();
            }
        }
    }

    /// Submits all writes and waits until the device has executed them. Does not wait on one of our own threads, which
    /// others wait for.
    pub(crate) fn flush(&self) {
        let own = exit::is_own();
        match self.queue.take_turn(false) {
            Some(turn) => {
                self.device.flush();
                drop(turn);
                self.pushed();
            }
            None => {
                let done = Arc::new(Completion::new());
                done.submitted();
                self.push([QueueItem::Flush(Flush(done.clone()))]);
                if !own {
                    drop(done.wait());
                }
            }
        }
        while !own && self.lost.check().is_ok() && self.device.wait_for_write(SLICE) {}
    }

    /// Waits until everything queued so far was submitted. On a thread that others wait for, it does not wait.
    pub(crate) fn wait_until_submitted(&self) {
        match self.queue.take_turn(false) {
            Some(turn) => {
                drop(turn);
                self.pushed();
            }
            None if exit::is_own() => {}
            None => {
                let done = Arc::new(Completion::new());
                done.submitted();
                self.push([QueueItem::Flush(Flush(done.clone()))]);
                drop(done.wait());
            }
        }
    }

    /// Bytes of writes that are staged or wait for their turn.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.device.reap();
        self.staged.bytes()
    }

    /// Performs a write of `bytes` bytes, at once if nothing is ahead of it. If it fails after it was queued, the block
    /// is poisoned.
    pub(crate) fn write_in_order(&self, write: Q::Write, bytes: u64, target: WriteTarget) -> Result<()> {
        self.staged.add(bytes);
        let Some(turn) = self.queue.take_turn(false) else {
            self.push([QueueItem::Write(write, Some(target))]);
            return Ok(());
        };
        let written = self.apply(write, Some(&target));
        drop(turn);
        self.pushed();
        written
    }

    /// Queues a write that counts no bytes and has no block to poison.
    pub(crate) fn queue_write(&self, write: Q::Write) {
        self.push([QueueItem::Write(write, None)]);
    }

    /// If nothing is ahead, runs `write` in its place in the order, without the device's queue, and returns true.
    pub(crate) fn write_now(&self, target: &WriteTarget, write: impl FnOnce()) -> bool {
        let Some(turn) = self.queue.take_turn(false) else { return false };
        write();
        target.written(self.next_order());
        drop(turn);
        self.pushed();
        true
    }

    /// Performs a write. The caller has the turn.
    fn apply(&self, write: Q::Write, target: Option<&WriteTarget>) -> Result<()> {
        self.device.write(write)?;
        if let Some(target) = target {
            target.written(self.next_order());
        }
        Ok(())
    }

    /// Performs a queued write. Its caller no longer waits, so a failure poisons the block.
    pub(super) fn write_queued(&self, write: Q::Write, target: Option<&WriteTarget>) {
        if let (Err(error), Some(target)) = (self.apply(write, target), target) {
            let error = Block::blame_import([&target.block], error);
            target.block.poison(&error, target.sequence, self.next_order());
        }
    }
}
