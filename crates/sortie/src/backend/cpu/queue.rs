//! The queue of the built-in CPU: a submission runs immediately, on the thread that has the turn.
//!
//! The submission is settled (poison, readings, pins) before the turn ends; only wakers run after it. So one submission
//! runs at a time, and memory from the pool has no work pending.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{CpuSubmission, host_memory::host_memory};
use crate::{
    clock::Instant,
    error::{Error, Result},
    finish::{Completion, PendingReadback},
    memory::{Block, host},
    metrics::{AtomicCounter, Counters},
    submit::{BatchState, DeviceQueue, Refused, Submitted, Submitter, Waited, WriteTarget},
};

pub(crate) struct CpuQueue {
    counters: Arc<Counters>,
    /// The completion of the running submission.
    running: Mutex<Option<Arc<Completion>>>,
    exiting: AtomicBool,
}

/// A write to host memory that waits for its turn.
pub(crate) struct CpuWrite {
    block: Arc<Block>,
    start: u64,
    data: Box<[u8]>,
}

impl CpuQueue {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { counters, running: Mutex::default(), exiting: AtomicBool::new(false) }
    }
}

impl DeviceQueue for CpuQueue {
    type Commands = CpuSubmission;
    type Write = CpuWrite;
    /// Nothing is ever in flight.
    type WaitPoint = Infallible;

    fn submit(
        &self,
        work: CpuSubmission,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<Submitted<Infallible>, Refused> {
        self.counters.submissions.add(1);
        let (blocks, completion) = (batch.blocks(), &batch.completion);
        *self.running.lock() = Some(completion.clone());
        // Set before `exiting` is read: either `quit` finds it running, or this thread sees that the process exits.
        if self.exiting.load(Ordering::SeqCst) {
            completion.cancel();
        }
        let begin = Instant::now();
        self.counters.in_flight.add(1);
        // This may be the caller's own thread, which a panic of ours must not end.
        let ran = catch_unwind(AssertUnwindSafe(|| work.run(blocks, &completion.canceled)));
        self.counters.in_flight.sub(1);
        drop(self.running.lock().take());
        let outcome = ran.unwrap_or_else(|_| Err(Error::internal("the built-in CPU panicked; please report it")));
        Ok(Submitted::Done { begin, outcome })
    }

    fn write(&self, CpuWrite { block, start, data }: CpuWrite) -> Result<()> {
        self.counters.staged_bytes.sub(data.len() as u64);
        host_memory(&block)?.write(start, &data);
        Ok(())
    }

    fn wait(&self, point: &Infallible, _at_most: Duration) -> Waited {
        match *point {}
    }

    fn finished(&self, _readback: Option<&dyn PendingReadback>) -> Result<()> {
        Ok(())
    }

    fn retain(&self, point: Infallible, _batch: &Arc<BatchState>) {
        match point {}
    }

    fn quit(&self) {
        self.exiting.store(true, Ordering::SeqCst);
        if let Some(running) = &*self.running.lock() {
            running.cancel();
        }
    }
}

impl Submitter<CpuQueue> {
    /// Writes to host memory, in order with submissions.
    pub(crate) fn store(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        let (target, memory) = (WriteTarget::new(block, whole), host_memory(block)?);
        if self.write_now(&target, || memory.write(start, data)) {
            return Ok(());
        }
        let bytes = data.len() as u64;
        self.make_room(bytes);
        let data = host::copy(data)?.into_boxed_slice();
        self.write_in_order(CpuWrite { block: block.clone(), start, data }, bytes, target)
    }
}
