//! Lowers tensor operations to kernels: decides which operations share one, and generates it.
//!
//! [`lower`] replaces the tensor operations of a recording by dispatches of generated kernels ([`Program`]). A tensor
//! operation only reads existing values and makes a new one, so it may move behind any operation that does not touch
//! its memory. A *segment* collects tensor operations until another operation needs one of their results or writes one
//! of their inputs. Within it:
//!
//! - elementwise operations over the same elements are fused, with any number of outputs;
//! - they are fused into the product or reduction that made their input (as its *tail*), if nothing in between depends
//!   on it;
//! - those that only compute the input of a reduction become its *body*;
//! - permuted, sliced and broadcast tensors are read in place;
//! - a value that is only copied to another place is computed there.
//!
//! Invariant: with `fuse` off every operation has its own kernel, with the same result.
//!
//! A program prints itself as WGSL, one `let` per expression. It runs as a dispatch on ordinary slots, so hazards,
//! waves, memory and caches treat it like any kernel. A value that no kernel stores has a slot without memory; a
//! reshaped tensor is the same memory. Sizes, scalars, offsets of slices, rows of tables and lengths of what is
//! concatenated are immediates, and inner dimensions are constants of the source, so kernels serve any outermost
//! length. An invocation computes several rows where these share part of their loads.
//!
//! Bounds: 1,024 operations per segment and 48 per kernel; past them the next one begins.

mod builder;
mod graph;
mod kernel;
mod product;
mod program;
mod reach;
mod slots;
mod tiles;
mod uses;
mod views;
mod wgsl;

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashMap, FxHasher};

use self::{graph::Graph, reach::Reach, slots::Slots, uses::Uses};
pub use self::{
    kernel::{KernelSource, MAX_FOLDED},
    program::{Body, Expr, Head, Indexing, Offset, Product, Program, ProgramBuffer, Reduce, Scalar, SideLayout},
};
use crate::{Access, Caps, Mode, Op, OpKind, Recording, SlotId, Span, TensorIndex, TensorOp, TensorRef};

/// Maximum operations of a segment: the time to group them grows with its square.
const SEGMENT: usize = 1024;

/// A recording without tensor operations, and the programs that replace them.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Slots and kernels are those of the original. An op of kind [`OpKind::Tensor`] runs one of the programs.
    pub recording: Recording,
    /// For each op, the op of the original that names it.
    pub origin: Vec<u32>,
    /// The programs of the tensor ops, each once.
    pub programs: Vec<Program>,
    /// For each tensor op in order, the recorded ops it replaces: tensor operations, views that it reads through,
    /// copies whose destination it writes.
    pub members: Vec<Vec<u32>>,
    /// The scalars of each tensor op. The op has a span of this list.
    pub scalars: Vec<Scalar>,
}

/// Replaces tensor operations.
#[must_use]
pub fn lower(recording: &Recording, caps: &Caps) -> Lowered {
    let mut lowering = Lowering {
        recording,
        caps,
        uses: Uses::of(recording),
        pending: Vec::new(),
        reads: Vec::new(),
        stored: Vec::new(),
        slots: Slots::new(recording.slots.len()),
        reach: Reach::default(),
        known: FxHashMap::default(),
        lowered: Lowered {
            recording: recording.without_ops(),
            origin: Vec::new(),
            programs: Vec::new(),
            members: Vec::new(),
            scalars: Vec::new(),
        },
    };
    for (number, op) in (0..).zip(&recording.ops) {
        match op.kind {
            OpKind::Tensor { tensor, .. } => lowering.tensor(number, tensor),
            _ => lowering.plain(number, op),
        }
    }
    lowering.flush();
    lowering.lowered
}

/// A value that is computed at the destination of a copy.
#[derive(Debug, Clone, Copy)]
struct StoreTarget {
    /// The slot and byte of the destination.
    place: SlotId,
    start: u64,
    /// The copy.
    op: u32,
}

struct Lowering<'a> {
    recording: &'a Recording,
    caps: &'a Caps,
    uses: Uses,
    /// The segment: numbers of tensor ops.
    pending: Vec<u32>,
    /// [`OpKind::Read`] ops of values that the segment makes.
    reads: Vec<u32>,
    /// Values that are computed at the destination of a copy.
    stored: Vec<StoreTarget>,
    slots: Slots,
    reach: Reach,
    /// Programs by their hash. A program whose hash another one has is kept as often as it comes.
    known: FxHashMap<u64, u32>,
    lowered: Lowered,
}

impl Lowering<'_> {
    fn tensor(&mut self, number: u32, tensor: TensorIndex) {
        let tensor = &self.recording.tensors[tensor.0 as usize];
        let stored = |input: &TensorRef| self.slots[input.slot].target;
        if self.pending.len() >= SEGMENT || tensor.inputs().iter().any(stored) {
            self.flush();
        }
        tensor.inputs().iter().for_each(|input| self.slots[input.slot].read = true);
        self.slots.set_maker(tensor.output.slot, self.pending.len());
        self.pending.push(number);
    }

    fn plain(&mut self, number: u32, op: &Op) {
        let accesses = self.recording.accesses_of(op);
        let made = |access: &Access| self.slots[access.slot].is_made();
        let disturbs = |access: &Access| made(access) || (access.mode != Mode::Read && self.slots[access.slot].read);
        match op.kind {
            OpKind::Read { .. } if accesses.iter().any(made) => return self.reads.push(number),
            OpKind::Copy if self.stores(accesses) => {
                let [from, to] = accesses else { unreachable!("a copy has two ends") };
                self.slots.set_copy(from.slot, self.stored.len());
                self.stored.push(StoreTarget { place: to.slot, start: to.start, op: number });
                self.slots[to.slot].target = true;
                return;
            }
            OpKind::Barrier | OpKind::Split => self.flush(),
            _ if accesses.iter().any(disturbs) => self.flush(),
            _ => {}
        }
        self.keep(number);
    }

    /// Whether a value of the segment is otherwise used only within it, so that it can be computed at the destination
    /// of a copy.
    fn stores(&self, accesses: &[Access]) -> bool {
        let [from, to] = accesses else { return false };
        let (source, target) = (&self.slots[from.slot], &self.slots[to.slot]);
        let whole = from.start == 0 && from.end == self.recording.slots[from.slot.0 as usize].bytes;
        let aligned = to.start.is_multiple_of(u64::from(self.caps.params_align.max(1)));
        let here = || self.uses.readers(from.slot).iter().all(|reader| self.pending.binary_search(reader).is_ok());
        let made = source.is_made() && !source.target;
        let free = !target.is_made() && !target.read && from.slot != to.slot;
        made && whole && aligned && free && self.uses.plain(from.slot) == 1 && here()
    }

    /// Appends an op unchanged.
    fn keep(&mut self, number: u32) {
        let op = self.recording.ops[number as usize];
        let accesses = self.accesses(self.recording.accesses_of(&op).iter().copied());
        self.push(number, Op { accesses, ..op });
    }

    fn accesses(&mut self, accesses: impl Iterator<Item = Access>) -> Span {
        let first = self.lowered.recording.accesses.len();
        accesses.for_each(|access| self.lowered.recording.push_access(access));
        Span::new(first..self.lowered.recording.accesses.len())
    }

    fn push(&mut self, origin: u32, op: Op) {
        self.lowered.recording.push_op(op);
        self.lowered.origin.push(origin);
    }

    /// The number of a program.
    fn program(&mut self, program: Program) -> TensorIndex {
        let mut hasher = FxHasher::default();
        program.hash(&mut hasher);
        let next = u32::try_from(self.lowered.programs.len()).expect("no more programs than ops");
        let number = *self.known.entry(hasher.finish()).or_insert(next);
        if self.lowered.programs.get(number as usize) == Some(&program) {
            return TensorIndex(number);
        }
        self.lowered.programs.push(program);
        TensorIndex(next)
    }

    /// Ends the segment.
    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let stored = std::mem::take(&mut self.stored);
        let slots = std::mem::take(&mut self.slots);
        let copy = |slot: SlotId| slots.copy(slot).map(|copy| &stored[copy]);
        let place = |(slot, bytes): (SlotId, std::ops::Range<u64>)| match copy(slot) {
            Some(StoreTarget { place, start, .. }) => (*place, bytes.start + start..bytes.end + start),
            None => (slot, bytes),
        };
        let reach = std::mem::take(&mut self.reach);
        let graph = Graph::new(self.recording, self.caps, &self.uses, &slots, reach, &pending);
        let kernels = graph.kernels();
        self.reach = graph.into_reach();
        for kernel in kernels {
            let mut members = kernel.members;
            members.extend(kernel.writes.iter().filter_map(|(slot, _)| copy(*slot)).map(|stored| stored.op));
            members.sort_unstable();
            self.lowered.members.push(members);
            let inputs = kernel.reads.into_iter().map(place).map(|(slot, bytes)| Access::read(slot, bytes));
            let outputs = kernel.writes.into_iter().map(place).map(|(slot, bytes)| Access::write(slot, bytes));
            let accesses = self.accesses(inputs.chain(outputs));
            let first = self.lowered.scalars.len();
            self.lowered.scalars.extend(kernel.scalars);
            let scalars = Span::new(first..self.lowered.scalars.len());
            let op = Op { kind: OpKind::Tensor { tensor: self.program(kernel.program), scalars }, accesses };
            self.push(kernel.origin, op);
        }
        self.slots = slots;
        let reads = std::mem::take(&mut self.reads);
        reads.into_iter().for_each(|number| self.keep(number));
        for number in pending {
            let tensor = tensor_of(self.recording, number);
            tensor.inputs().iter().for_each(|input| self.slots.reset(input.slot));
            self.slots.reset(tensor.output.slot);
        }
        stored.iter().for_each(|stored| self.slots.reset(stored.place));
    }
}

/// The tensor operation of an op.
fn tensor_of(recording: &Recording, op: u32) -> &TensorOp {
    match recording.ops[op as usize].kind {
        OpKind::Tensor { tensor, .. } => &recording.tensors[tensor.0 as usize],
        kind => unreachable!("{kind:?} is no tensor operation"),
    }
}

/// A program with its bindings.
#[derive(Debug)]
struct BoundProgram {
    program: Program,
    reads: Vec<(SlotId, std::ops::Range<u64>)>,
    writes: Vec<(SlotId, std::ops::Range<u64>)>,
    scalars: Vec<Scalar>,
    /// The last of its operations.
    origin: u32,
    /// All of them, and the views it reads through.
    members: Vec<u32>,
}
