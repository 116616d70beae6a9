//! One submission of a plan, run on the host.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use smallvec::SmallVec;
use sortie_plan::{Access, Clear, Lane, Op, OpKind};

use super::{dispatch::canceled_here, fill::fill, memory::Memory, workers::Workers};
use crate::{
    backend::cpu::kernel::CpuKernel,
    encode::{Errand, Frozen, Payload, Planned},
    error::{Error, Result},
    memory::{Block, Returns, host},
    metrics::{Count, Counters},
    profile::{Log, Ran, RanBetween, What},
};

/// One submission of a batch, ready to run.
pub(crate) struct Work {
    pub(super) sheet: Arc<Sheet>,
    /// A stretch of the plan's order.
    pub(super) ops: Range<usize>,
    /// Which submission of its batch it is.
    pub(super) part: u32,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// What all submissions of a batch share: the plan, and what it refers to.
pub(super) struct Sheet {
    pub(super) planned: Arc<Planned>,
    held: Held,
    pub(super) workers: Arc<Workers>,
    returns: Option<Arc<Returns>>,
    counters: Arc<Counters>,
    /// Where somebody wants to know what it takes.
    log: Option<Arc<Log>>,
}

/// What a plan refers to.
#[expect(clippy::large_enum_variant, reason = "there is one for each batch, and it is never moved again")]
pub(super) enum Held {
    /// Of a batch. Without its blocks, which the flight holds.
    Own(Payload),
    /// Of a replay, and of one run of it.
    Frozen(Arc<Frozen>, Errand),
}

impl Held {
    /// Takes all of the payload but its blocks.
    pub(super) fn take(payload: &mut Payload) -> Self {
        let mut taken = SPARE.lock().pop().unwrap_or_default();
        std::mem::swap(&mut taken, payload);
        std::mem::swap(&mut taken.blocks, &mut payload.blocks);
        Self::Own(taken)
    }
}

impl Sheet {
    pub(super) fn new(
        planned: &Arc<Planned>,
        held: Held,
        workers: &Arc<Workers>,
        returns: Option<Arc<Returns>>,
        counters: &Arc<Counters>,
        log: Option<Arc<Log>>,
    ) -> Self {
        Self { planned: planned.clone(), held, workers: workers.clone(), returns, counters: counters.clone(), log }
    }

    #[inline]
    pub(super) fn payload(&self) -> &Payload {
        match &self.held {
            Held::Own(payload) => payload,
            Held::Frozen(frozen, _) => &frozen.payload,
        }
    }

    /// The replay and the run that it is of, if it is.
    fn run(&self) -> Option<(&Frozen, &Errand)> {
        match &self.held {
            Held::Own(_) => None,
            Held::Frozen(frozen, errand) => Some((frozen, errand)),
        }
    }

    pub(super) fn bytes_written(&self) -> u64 {
        (self.payload().uploads.len() + self.run().map_or(0, |(_, errand)| errand.data.len())) as u64
    }

    pub(super) fn returns(&self) -> Option<&Arc<Returns>> {
        self.returns.as_ref()
    }
}

/// Payloads kept for later batches: as many as may sensibly be under way.
const SPARES: usize = 16;
/// One that has held more is not kept: what one large batch took would stay for good.
const SPARE_OPS: usize = 1 << 16;
const SPARE_BYTES: usize = 1 << 20;
static SPARE: Mutex<Vec<Payload>> = Mutex::new(Vec::new());

impl Drop for Sheet {
    fn drop(&mut self) {
        let Held::Own(payload) = &mut self.held else { return };
        let mut payload = std::mem::take(payload);
        // Kernels may go here: outside the lock.
        payload.clear();
        let bytes = payload.uploads.capacity().max(payload.immediates.capacity());
        if bytes > SPARE_BYTES || payload.names.room() > SPARE_OPS {
            return;
        }
        let mut spare = SPARE.lock();
        if spare.len() < SPARES {
            spare.push(payload);
        }
    }
}

impl Work {
    /// Runs it on the calling thread, until it is done or `canceled` is set. `blocks` are those that encoding left in the payload.
    pub(crate) fn run(&self, blocks: &[Option<Arc<Block>>], canceled: &AtomicBool) -> Result<()> {
        let plan = &self.sheet.planned.plan;
        let kernels = self.sheet.payload().kernels.iter().map(CpuKernel::of);
        let mut running = Running {
            sheet: &self.sheet,
            kernels: kernels.collect::<Result<_>>()?,
            memory: Memory::new(blocks, &plan.placement),
            canceled,
            tally: Tally::default(),
            minutes: self.sheet.log.as_ref().map(|log| Minutes::new(log, self.part, self.ops.len())),
        };
        let outcome = running.submission(self);
        running.tally.add_to(&self.sheet.counters);
        if let Some(minutes) = running.minutes {
            minutes.file();
        }
        outcome
    }
}

/// A submission under way.
pub(super) struct Running<'a> {
    pub(super) sheet: &'a Sheet,
    /// By number.
    pub(super) kernels: SmallVec<[&'a CpuKernel; 16]>,
    pub(super) memory: Memory<'a>,
    pub(super) canceled: &'a AtomicBool,
    tally: Tally,
    /// Where somebody wants to know what it takes.
    minutes: Option<Minutes<'a>>,
}

impl Running<'_> {
    fn submission(&mut self, work: &Work) -> Result<()> {
        let plan = &self.sheet.planned.plan;
        if work.first {
            for clear in plan.clears.iter().filter(|clear| clear.first) {
                self.clear(clear, Lane::Transfer);
            }
            self.inputs();
        }
        let mut start = work.ops.start;
        // Waves matter only to what must be zeroed between them.
        let begins = |clear: &Clear| plan.waves[clear.wave as usize].ops.start as usize;
        let first = plan.clears.partition_point(|clear| begins(clear) < start);
        let clears = plan.clears[first..].iter().take_while(|clear| begins(clear) < work.ops.end);
        for clear in clears.filter(|clear| !clear.first) {
            self.ops(&plan.order[start..begins(clear)])?;
            start = begins(clear);
            self.clear(clear, plan.waves[clear.wave as usize].lane);
        }
        self.ops(&plan.order[start..work.ops.end])?;
        if work.last {
            self.outputs()?;
        }
        Ok(())
    }

    /// Puts what a run of a replay brings into the replay's memory.
    fn inputs(&mut self) {
        let Some((frozen, errand)) = self.sheet.run() else { return };
        for port in frozen.inputs.iter() {
            self.tally.count(Lane::Transfer);
            let place = self.memory.place(&Access::write(port.slot, 0..port.bytes));
            let words: &mut [u8] = bytemuck::cast_slice_mut(self.memory.words(place));
            words.copy_from_slice(&errand.data[crate::memory::index(port.start)..][..words.len()]);
            self.did(What::Other("input of the run"));
        }
    }

    /// Reads what a run of a replay asks for.
    fn outputs(&mut self) -> Result<()> {
        let Some((frozen, errand)) = self.sheet.run() else { return Ok(()) };
        for port in frozen.outputs.iter().filter(|port| errand.reads.contains(&port.start)) {
            self.tally.count(Lane::Transfer);
            self.tally.bytes_read += port.bytes;
            let place = self.memory.place(&Access::read(port.slot, 0..port.bytes));
            let words = host::copy(self.memory.words(place))?;
            if let Some(returns) = &self.sheet.returns {
                returns.push(port.start, words);
            }
            self.did(What::Other("output of the run"));
        }
        Ok(())
    }

    /// This has just been done.
    #[inline]
    fn did(&mut self, what: What) {
        if let Some(minutes) = &mut self.minutes {
            minutes.did(what);
        }
    }

    /// Zeros scratch. What comes zeroed needs it only when it is used again.
    fn clear(&mut self, clear: &Clear, lane: Lane) {
        if clear.first && self.memory.is_fresh(clear.physical) {
            return;
        }
        self.tally.count(lane);
        self.memory.zero(clear.physical, clear.bytes);
        self.did(What::Other("zeroing of scratch"));
    }

    fn ops(&mut self, order: &[u32]) -> Result<()> {
        let recording = &self.sheet.planned.recording;
        for index in order {
            if self.canceled.load(Ordering::Relaxed) {
                return Err(canceled_here());
            }
            let op = &recording.ops[*index as usize];
            if self.op(op, recording.accesses_of(op)).map_err(|error| self.placed(*index, error))? {
                self.did(What::Op(*index));
            }
        }
        Ok(())
    }

    /// Whether there was anything to do.
    #[inline]
    fn op(&mut self, op: &Op, accesses: &[Access]) -> Result<bool> {
        let payload = self.sheet.payload();
        let empty = match op.kind {
            OpKind::Dispatch => !op.indirect && op.grid.contains(&0),
            _ => accesses.is_empty(),
        };
        if empty {
            return Ok(false);
        }
        self.tally.count(op.lane);
        match (op.kind, accesses) {
            (OpKind::Dispatch, accesses) => self.dispatch(op, accesses)?,
            (OpKind::Copy, [from, to]) => {
                let (from, to) = (self.memory.place(from), self.memory.place(to));
                self.memory.copy(from, to);
            }
            (OpKind::Fill, [to]) => {
                let to = self.memory.place(to);
                fill(self.memory.words(to), &payload.immediates[op.data.range()]);
            }
            (OpKind::Write, [to]) => {
                let to = self.memory.place(to);
                let words: &mut [u8] = bytemuck::cast_slice_mut(self.memory.words(to));
                words.copy_from_slice(&payload.uploads[op.data.range()]);
            }
            (OpKind::Read, [from]) => {
                self.tally.bytes_read += from.end - from.start;
                let from = self.memory.place(from);
                let words = host::copy(self.memory.words(from))?;
                if let Some(returns) = &self.sheet.returns {
                    returns.push(u64::from(op.data.start), words);
                }
            }
            (kind, accesses) => unreachable!("{kind:?} with {} accesses", accesses.len()),
        }
        Ok(true)
    }

    #[cold]
    fn placed(&self, op: u32, error: Error) -> Error {
        self.sheet.payload().names.place(self.sheet.planned.origin(op as usize), error)
    }
}

/// What a submission did when.
struct Minutes<'a> {
    log: &'a Log,
    part: u32,
    ran: Vec<Ran>,
    between: Vec<RanBetween>,
    /// When the last one ended, in nanoseconds since the log began.
    last: u64,
}

impl<'a> Minutes<'a> {
    fn new(log: &'a Log, part: u32, ops: usize) -> Self {
        let (ran, between) = (Vec::with_capacity(ops), Vec::with_capacity(ops));
        Self { log, part, ran, between, last: log.since(Instant::now()) }
    }

    /// Apart, so that running without a profile does not carry it along.
    #[cold]
    fn did(&mut self, what: What) {
        let now = self.log.since(Instant::now());
        let first = u32::try_from(self.ran.len()).unwrap_or(u32::MAX);
        self.ran.push(Ran { what, part: self.part, encode: 0 });
        let begin = std::mem::replace(&mut self.last, now);
        self.between.push(RanBetween { first, count: 1, part: self.part, begin, end: now });
    }

    fn file(self) {
        self.log.ran(self.ran, self.between);
    }
}

/// What a submission has done, as a wgpu device would count it.
#[derive(Default)]
struct Tally {
    /// A pass is open: it would be, were there passes.
    open: bool,
    passes: u64,
    dispatches: u64,
    transfers: u64,
    bytes_read: u64,
}

impl Tally {
    #[inline]
    fn count(&mut self, lane: Lane) {
        match lane {
            Lane::Compute => {
                self.passes += u64::from(!self.open);
                self.dispatches += 1;
            }
            Lane::Transfer => self.transfers += 1,
        }
        self.open = lane == Lane::Compute;
    }

    fn add_to(&self, counters: &Counters) {
        counters.passes.add(self.passes);
        counters.dispatches.add(self.dispatches);
        counters.transfers.add(self.transfers);
        counters.bytes_read.add(self.bytes_read);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("ops", &self.ops).finish_non_exhaustive()
    }
}
