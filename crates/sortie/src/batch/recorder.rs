//! All lists of one recording, reused from batch to batch.
//!
//! Invariant: a spare recorder is empty. It holds no handles, only capacity.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sortie_plan::{Access, KernelIndex, Op, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

use crate::{
    error::{CallSite, Error, ErrorKind, Result},
    info::Limits,
    kernel::Kernel,
    memory::{Block, BufferId, MAX_SPARE_BYTES, MAX_SPARE_OPS, Spares},
    plan::Resources,
    submit::Pins,
};

#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) recording: Recording,
    pub(super) resources: Resources,
    slots: FxHashMap<BufferId, SlotId>,
    kernels: FxHashMap<u64, KernelIndex>,
    /// Mistakes by op of the recording.
    mistakes: Vec<Mistake>,
    /// The outermost call of `Batch::record` that is running.
    caller: Option<CallSite>,
    /// Dispatches whose kernel has immediates that are not set yet, in order.
    owed: Vec<u32>,
    /// Upper bound of the hidden parameters so far.
    params_bytes: u64,
    /// The places of numbers among the immediates, if operations with equal numbers are joined.
    numbers: FxHashMap<(u32, Option<u32>), Span>,
}

#[derive(Debug)]
struct Mistake {
    op: usize,
    error: Error,
    /// The call of `Batch::record` that it was made in.
    caller: Option<CallSite>,
}

/// Boxed, so that taking one moves a pointer.
static SPARE: Spares<Box<Recorder>> = Spares::new();

impl Recorder {
    pub(super) fn take() -> Box<Self> {
        let mut recorder = SPARE.take();
        recorder.resources.blocks = Pins::spare();
        recorder
    }

    pub(super) fn give_back(mut self: Box<Self>) {
        if self.resources.uploads.capacity() > MAX_SPARE_BYTES {
            self.resources.uploads = Vec::new();
        }
        if self.recording.ops.capacity() > MAX_SPARE_OPS || self.resources.immediates.capacity() > MAX_SPARE_BYTES {
            return;
        }
        self.recording.clear();
        self.resources.clear();
        self.slots.clear();
        self.kernels.clear();
        self.mistakes.clear();
        self.caller = None;
        self.owed.clear();
        self.params_bytes = 0;
        self.numbers.clear();
        SPARE.put(self);
    }

    /// Appends scalars of a tensor operation to the immediates.
    pub(super) fn append_scalars(&mut self, scalars: &[u32]) -> Span {
        let start = self.resources.immediates.len();
        self.resources.immediates.extend_from_slice(bytemuck::cast_slice(scalars));
        Span::new(start..self.resources.immediates.len())
    }

    /// The place of one number or two among the immediates: the same for all operations that take them.
    pub(super) fn numbers(&mut self, numbers: (u32, Option<u32>)) -> Span {
        if let Some(known) = self.numbers.get(&numbers) {
            return *known;
        }
        let span = match numbers {
            (first, None) => self.append_scalars(&[first]),
            (first, Some(second)) => self.append_scalars(&[first, second]),
        };
        self.numbers.insert(numbers, span);
        span
    }

    /// Appends an op whose accesses have been pushed. Returns its index in the recording.
    #[inline]
    pub(super) fn push(&mut self, op: Op, at: CallSite) -> usize {
        self.recording.push_op(op);
        self.resources.names.push(at)
    }

    /// Appends an op that does not count as one of the user's ops.
    pub(super) fn push_further(&mut self, op: Op, at: CallSite) {
        let op = self.push(op, at);
        self.resources.names.uncount(op);
    }

    /// Reserves `count` blocks of hidden parameters. All of them share one buffer.
    pub(super) fn reserve_params(&mut self, bytes: u64, count: u64, limits: &Limits) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let block = bytes.next_multiple_of(u64::from(limits.slice_alignment));
        self.params_bytes = self.params_bytes.saturating_add(block.saturating_mul(count));
        let most = limits.buffer_bytes.min(u64::from(u32::MAX));
        if self.params_bytes > most {
            return Err(Error::too_large("bytes of hidden parameters in one batch", self.params_bytes, most));
        }
        Ok(())
    }

    /// Appends a barrier or a split.
    pub(super) fn push_fence(&mut self, kind: OpKind, at: CallSite) {
        self.push_further(Op::bare(kind), at);
    }

    /// Records a mistake in place of an op that cannot be recorded.
    #[cold]
    pub(super) fn refuse(&mut self, error: Error, at: CallSite) -> usize {
        // Any op without effect works here: the batch does not run.
        let op = self.push(Op::bare(OpKind::Copy), at);
        self.mistake(op, error);
        op
    }

    #[inline]
    pub(super) fn access(&mut self, access: Access) {
        self.recording.push_access(access);
    }

    /// The slot of a user's block, numbered by first use.
    #[inline]
    pub(super) fn slot(&mut self, block: &Arc<Block>) -> SlotId {
        // The block caches its slot in the last batch that used it, which usually is this one.
        let slot_hint = block.slot_hint();
        let known = self.resources.blocks.get(slot_hint as usize).and_then(Option::as_ref);
        if known.is_some_and(|known| Arc::ptr_eq(known, block)) {
            return SlotId(slot_hint);
        }
        let slot = self.look_up(block);
        block.set_hint(slot.0);
        slot
    }

    #[cold]
    fn look_up(&mut self, block: &Arc<Block>) -> SlotId {
        *self.slots.entry(block.id()).or_insert_with(|| {
            self.resources.blocks.push(Some(block.clone()));
            self.recording.push_slot(SlotInfo { kind: SlotKind::External, bytes: block.bytes() })
        })
    }

    pub(super) fn scratch(&mut self, bytes: u64) -> SlotId {
        self.resources.blocks.push(None);
        self.recording.push_slot(SlotInfo { kind: SlotKind::Scratch, bytes })
    }

    /// Memory owned by a replay; allocated when the batch is frozen.
    pub(super) fn port_slot(&mut self, bytes: u64) -> SlotId {
        self.resources.blocks.push(None);
        self.recording.push_slot(SlotInfo { kind: SlotKind::External, bytes })
    }

    #[inline]
    pub(super) fn kernel(&mut self, kernel: &Kernel) -> KernelIndex {
        // Consecutive dispatches of the same kernel are the common case.
        if let Some(Op { kind: OpKind::Dispatch { kernel: last, .. }, .. }) = self.recording.ops.last()
            && self.recording.kernels.get(last.0 as usize) == Some(&kernel.id())
        {
            return *last;
        }
        if let Some(index) = self.kernels.get(&kernel.id()) {
            return *index;
        }
        let index = self.recording.push_kernel(kernel.id());
        self.resources.kernels.push(kernel.clone());
        self.kernels.insert(kernel.id(), index);
        index
    }

    /// Notes that a dispatch still needs immediates.
    pub(super) fn expect_immediates(&mut self, op: usize) {
        self.owed.push(index(op));
    }

    /// The immediates were set, correctly or not.
    pub(super) fn got_immediates(&mut self, op: usize) {
        if self.owed.last() == Some(&index(op)) {
            self.owed.pop();
        }
    }

    pub(super) fn mistake(&mut self, op: usize, error: Error) {
        self.mistakes.push(Mistake { op, error, caller: self.caller });
    }

    /// Mistakes name `caller` until [`Recorder::leave`], unless an outer call is running. Returns the outer call.
    pub(super) fn enter(&mut self, caller: CallSite) -> Option<CallSite> {
        let outer = self.caller;
        self.caller.get_or_insert(caller);
        outer
    }

    pub(super) fn leave(&mut self, outer: Option<CallSite>) {
        self.caller = outer;
    }

    /// All mistakes so far in order, each with its op, label and line. They stay in the recorder.
    pub(super) fn mistakes(&mut self) -> Vec<Error> {
        while let Some(op) = self.owed.pop() {
            let op = op as usize;
            let size = self.recording.ops[op].immediates().len;
            let message = format!("the kernel takes {size} bytes of immediates, but none were given");
            self.mistake(op, Error::new(ErrorKind::Bindings, message));
        }
        self.mistakes.sort_by_key(|mistake| mistake.op);
        let attributed = self.mistakes.iter().map(|Mistake { op, error, caller }| {
            let own = self.resources.names.attach(*op, error.clone());
            match caller {
                Some(caller) => own.clone().at(caller).caused_by(own),
                None => own,
            }
        });
        attributed.collect()
    }
}

fn index(op: usize) -> u32 {
    u32::try_from(op).unwrap_or_else(|_| unreachable!("a recording is indexed by u32"))
}
