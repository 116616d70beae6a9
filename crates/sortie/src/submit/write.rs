//! Writes outside of batches, in order with the flights, and bounded: see [`Staged`](super::staged::Staged).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{Item, Queue, SLICE, Submitter, wait_point::WaitPoint};
use crate::{
    backend::cpu::host_memory,
    device::Signal,
    error::Result,
    exit,
    memory::{Block, Sequence, host},
};

/// What a write is for.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) block: Arc<Block>,
    /// It overwrites all of it.
    whole: bool,
    pub(super) sequence: Sequence,
}

impl Target {
    fn new(block: &Arc<Block>, whole: bool) -> Self {
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

impl Submitter {
    /// Makes room for a write: submits what is staged when that would be too much, and waits until the device has taken it.
    pub(crate) fn make_room(&self, bytes: u64) {
        if self.staged.is_full(bytes) {
            self.reap();
            if self.staged.is_full(bytes) {
                self.flush();
            }
        }
    }

    /// Submits all writes and waits until the device has taken them; on the built-in CPU, until they have been made. A waker of ours, which others wait for, does not wait.
    pub(crate) fn flush(&self) {
        let own = exit::is_own();
        match self.line.take_turn(false) {
            Some(_turn) => self.submit_writes(),
            None => {
                let (done, guard) = Signal::new();
                self.line.push([Item::Flush(guard)]);
                while !own && done.get().is_none() {
                    done.wait(SLICE);
                }
            }
        }
        while let Some(oldest) = self.staged.oldest().filter(|_| !own && self.lost.check().is_ok()) {
            oldest.wait(self.wgpu().0, self.timeline.as_deref(), &self.lost, SLICE);
            self.reap();
        }
    }

    /// Bytes of writes that are kept, or wait for their turn.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.reap();
        self.counters.staged_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn reap(&self) {
        if let Queue::Wgpu { gpu, .. } = &self.queue {
            self.staged.reap(|point| point.is_over(gpu, self.timeline.as_deref(), &self.lost, Duration::ZERO));
        }
    }

    /// The caller has the turn.
    pub(super) fn submit_writes(&self) {
        if !self.staged.pending() {
            return;
        }
        if let Err(error) = self.submit_unattended(None, "writes") {
            self.lost.set(format!("writes could not be submitted: {error}"));
        }
    }

    /// Submits what nobody waits for, and all writes with it. The caller has the turn.
    fn submit_unattended(&self, commands: Option<wgpu::CommandBuffer>, what: &str) -> Result<()> {
        let (gpu, queue) = self.wgpu();
        let others = self.sharing.lock().others;
        let scopes = gpu.scopes();
        let point = WaitPoint::submit(queue, self.timeline.as_deref(), others, commands);
        self.staged.left(point.as_ref());
        scopes.pop(|| what.into(), 0).map_err(|error| self.lost.explain(gpu, error))?;
        if point.is_none() {
            self.lost.set("it was destroyed");
        }
        self.lost.check()
    }

    /// Writes to a buffer, in order with the flights. What is refused only after it was queued poisons the buffer.
    pub(crate) fn write(&self, view: wgpu::QueueWriteBufferView, block: &Arc<Block>, whole: bool) -> Result<()> {
        let target = Target::new(block, whole);
        self.staged.add(view.len() as u64);
        let Some(_turn) = self.line.take_turn(false) else {
            self.line.push([Item::Write(view, target)]);
            return Ok(());
        };
        self.apply(view, &target)
    }

    /// Writes to a buffer by commands that copy `bytes` staged bytes into it, in order with the flights.
    pub(crate) fn copy_in(
        &self,
        commands: wgpu::CommandBuffer,
        bytes: u64,
        block: &Arc<Block>,
        whole: bool,
    ) -> Result<()> {
        let target = Target::new(block, whole);
        self.staged.add(bytes);
        let Some(_turn) = self.line.take_turn(false) else {
            self.line.push([Item::CopyIn(commands, bytes, target)]);
            return Ok(());
        };
        self.apply_copy(commands, bytes, &target)
    }

    /// The caller has the turn.
    pub(super) fn apply_copy(&self, commands: wgpu::CommandBuffer, bytes: u64, target: &Target) -> Result<()> {
        self.staged.applied(bytes);
        self.submit_unattended(Some(commands), "a write")?;
        target.written(self.next_order());
        Ok(())
    }

    /// Nobody waits for a write that was queued, so the buffer remembers that it failed.
    pub(super) fn remember(&self, outcome: Result<()>, target: &Target) {
        if let Err(error) = outcome {
            let error = Block::blame([&target.block], error);
            target.block.poison(&error, target.sequence, self.next_order());
        }
    }

    /// Writes to the host's own memory, in order with the flights.
    pub(crate) fn store(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        let target = Target::new(block, whole);
        match self.line.take_turn(false) {
            Some(_turn) => self.apply_store(start, data, &target)?,
            None => {
                self.make_room(data.len() as u64);
                let data = host::copy(data)?.into_boxed_slice();
                self.staged.add(data.len() as u64);
                self.line.push([Item::Store { target, start, data }]);
            }
        }
        Ok(())
    }

    /// Lets a write to the host's own memory take effect. The caller has the turn.
    pub(super) fn apply_store(&self, start: u64, data: &[u8], target: &Target) -> Result<()> {
        host_memory(&target.block)?.write(start, data);
        target.written(self.next_order());
        Ok(())
    }

    pub(super) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets a write take effect. The caller has the turn.
    pub(super) fn apply(&self, view: wgpu::QueueWriteBufferView, target: &Target) -> Result<()> {
        let (gpu, _) = self.wgpu();
        let bytes = view.len() as u64;
        let scopes = gpu.scopes();
        drop(view);
        self.staged.applied(bytes);
        scopes.pop(|| "a write".into(), 0).map_err(|error| self.lost.explain(gpu, error))?;
        target.written(self.next_order());
        Ok(())
    }

    pub(super) fn zero(&self, commands: wgpu::CommandBuffer) {
        if let Err(error) = self.submit_unattended(Some(commands), "the zeroing of recycled memory") {
            // Old data could show: nothing on this device can be trusted any more.
            self.lost.set(format!("recycled memory could not be zeroed: {error}"));
        }
    }
}
