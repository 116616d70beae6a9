//! Writes outside of batches, in order with submissions, and bounded: see [`StagedBytes`](super::staged::Staged).

use std::sync::Arc;

use super::{
    device_queue::DeviceQueue,
    item::{Flush, QueueItem, WriteTarget},
    submitter::{SLICE, Submitter},
};
use crate::{error::Result, exit, finish::Completion, memory::Block};

impl<Q: DeviceQueue> Submitter<Q> {
    /// Makes room for a write: submits what is staged when that would be too much, and waits until the device has taken it.
    pub(crate) fn make_room(&self, bytes: u64) {
        if self.staged.is_full(bytes) {
            self.device.reap();
            if self.staged.is_full(bytes) {
                self.flush();
            }
        }
    }

    /// Submits all writes and waits until the device has taken them. A waker of ours, which others wait for, does not wait.
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

    /// Bytes of writes that are kept, or wait for their turn.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.device.reap();
        self.staged.bytes()
    }

    /// Makes a write of so many bytes: at once where nothing is ahead of it. What is refused only after it was queued poisons the block.
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

    /// Does what a write is for without the device's queue, and returns true, if nothing is ahead of it.
    pub(crate) fn write_now(&self, target: &WriteTarget, write: impl FnOnce()) -> bool {
        let Some(turn) = self.queue.take_turn(false) else { return false };
        write();
        target.written(self.next_order());
        drop(turn);
        self.pushed();
        true
    }

    /// The caller has the turn.
    fn apply(&self, write: Q::Write, target: Option<&WriteTarget>) -> Result<()> {
        self.device.write(write)?;
        if let Some(target) = target {
            target.written(self.next_order());
        }
        Ok(())
    }

    /// A write whose turn has come. Nobody waits for it, so the block remembers that it failed.
    pub(super) fn write_queued(&self, write: Q::Write, target: Option<&WriteTarget>) {
        if let (Err(error), Some(target)) = (self.apply(write, target), target) {
            let error = Block::blame_import([&target.block], error);
            target.block.poison(&error, target.sequence, self.next_order());
        }
    }
}
