//! All lists of one recording, reused from batch to batch.
//!
//! Invariant: a spare tape is empty and holds no handle, only room.

use std::panic::Location;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sortie_plan::{Access, Op, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

use crate::{
    encode::Payload,
    error::{Error, OpName},
    kernel::Kernel,
    memory::{Block, BufferId},
    submit::Pins,
};

#[derive(Debug, Default)]
pub(super) struct Tape {
    pub(super) recording: Recording,
    pub(super) payload: Payload,
    /// One per op of the recording.
    pub(super) notes: Vec<Note>,
    labels: String,
    scopes: Vec<Scope>,
    /// The innermost open scope.
    scope: Option<u32>,
    slots: FxHashMap<BufferId, SlotId>,
    kernels: FxHashMap<u64, u32>,
    /// Mistakes by op of the recording.
    mistakes: Vec<(usize, Error)>,
    /// Ops that are not fences.
    count: usize,
    /// Dispatches whose kernel has immediates that were not given yet.
    pub(super) owed: usize,
}

/// What an op is called and where it was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) at: &'static Location<'static>,
    label: Span,
    scope: Option<u32>,
    /// Its number among the ops that are not fences.
    number: u32,
    /// Immediates are missing.
    pub(super) owes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Scope {
    label: Span,
    outer: Option<u32>,
}

/// Tapes kept for later batches: as many as threads may sensibly record at once.
const SPARES: usize = 16;
static SPARE: Mutex<Vec<Box<Tape>>> = Mutex::new(Vec::new());

impl Tape {
    pub(super) fn take() -> Box<Self> {
        let mut tape = SPARE.lock().pop().unwrap_or_default();
        tape.payload.blocks = Pins::spare();
        tape
    }

    pub(super) fn give_back(mut self: Box<Self>) {
        self.recording.clear();
        self.payload.clear();
        self.notes.clear();
        self.labels.clear();
        self.scopes.clear();
        self.scope = None;
        self.slots.clear();
        self.kernels.clear();
        self.mistakes.clear();
        self.count = 0;
        self.owed = 0;
        let mut spare = SPARE.lock();
        if spare.len() < SPARES {
            spare.push(self);
        }
    }

    /// Appends an op; its accesses are those pushed since `first`. Returns its index in the recording.
    #[inline]
    pub(super) fn push(&mut self, op: Op, at: &'static Location<'static>) -> usize {
        let number = u32::try_from(self.count).unwrap_or(u32::MAX);
        if !matches!(op.kind, OpKind::Barrier | OpKind::Split) {
            self.count += 1;
        }
        self.recording.push_op(op);
        self.notes.push(Note { at, label: Span::default(), scope: self.scope, number, owes: false });
        self.notes.len() - 1
    }

    #[inline]
    pub(super) fn access(&mut self, access: Access) {
        self.recording.push_access(access);
    }

    /// The slot of a user's block, numbered by first use.
    #[inline]
    pub(super) fn slot(&mut self, block: &std::sync::Arc<Block>) -> SlotId {
        if let Some(slot) = self.slots.get(&block.id()) {
            return *slot;
        }
        let slot = self.recording.push_slot(SlotInfo { kind: SlotKind::External, bytes: block.bytes() });
        self.payload.blocks.push(Some(block.clone()));
        self.slots.insert(block.id(), slot);
        slot
    }

    pub(super) fn scratch(&mut self, bytes: u64) -> SlotId {
        self.payload.blocks.push(None);
        self.recording.push_slot(SlotInfo { kind: SlotKind::Scratch, bytes })
    }

    #[inline]
    pub(super) fn kernel(&mut self, kernel: &Kernel) -> u32 {
        // Runs of the same kernel are the common case.
        if let Some(op) = self.recording.ops.last()
            && self.recording.kernels.get(op.kernel as usize) == Some(&kernel.id())
        {
            return op.kernel;
        }
        if let Some(index) = self.kernels.get(&kernel.id()) {
            return *index;
        }
        let index = self.recording.push_kernel(kernel.id());
        self.payload.kernels.push(kernel.clone());
        self.kernels.insert(kernel.id(), index);
        index
    }

    pub(super) fn label(&mut self, op: usize, label: &str) {
        self.notes[op].label = self.text(label);
    }

    pub(super) fn open_scope(&mut self, label: &str) -> Option<u32> {
        let outer = self.scope;
        let label = self.text(label);
        self.scope = u32::try_from(self.scopes.len()).ok();
        self.scopes.push(Scope { label, outer });
        outer
    }

    pub(super) fn close_scope(&mut self, outer: Option<u32>) {
        self.scope = outer;
    }

    pub(super) fn mistake(&mut self, op: usize, error: Error) {
        self.mistakes.push((op, error));
    }

    /// Whether the op has been refused.
    pub(super) fn refused(&self, op: usize) -> bool {
        self.mistakes.iter().any(|(at, _)| *at == op)
    }

    /// All mistakes, each with its op, label and line.
    pub(super) fn mistakes(&mut self) -> Vec<Error> {
        let mut mistakes = std::mem::take(&mut self.mistakes);
        mistakes.sort_by_key(|(op, _)| *op);
        mistakes.into_iter().map(|(op, error)| error.on(self.name(op)).at(self.notes[op].at)).collect()
    }

    pub(super) fn name(&self, op: usize) -> OpName {
        let note = &self.notes[op];
        let mut parts = vec![&self.labels[note.label.range()]];
        let mut scope = note.scope;
        while let Some(open) = scope.map(|index| self.scopes[index as usize]) {
            parts.push(&self.labels[open.label.range()]);
            scope = open.outer;
        }
        parts.reverse();
        parts.retain(|part| !part.is_empty());
        OpName { index: note.number as usize, label: parts.join("/") }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn text(&mut self, text: &str) -> Span {
        let start = self.labels.len();
        self.labels.push_str(text);
        Span::new(start..self.labels.len())
    }
}
