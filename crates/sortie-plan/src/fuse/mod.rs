//! From tensor operations to kernels: which operations share one, and what each computes.
//!
//! [`lower`] replaces the tensor operations of a recording by dispatches of generated kernels ([`Program`]). A tensor operation only reads
//! values that exist and makes one that did not, so it may move behind any operation that does not touch its memory: a *segment* collects
//! tensor operations until another operation needs one of their results or writes what they read. Within it:
//!
//! - elementwise operations over the same elements join, with any number of outputs;
//! - they join the product or reduction that made what they read (its *tail*), where nothing in between depends on it;
//! - those that make only what a reduction reads become its *body*;
//! - permuted, sliced and stretched tensors are read where they lie;
//! - a value that is only copied somewhere is made there.
//!
//! Invariant: with `fuse` off every operation has a kernel of its own, and computes the same.
//!
//! A program prints itself as WGSL, one `let` per expression. It runs as a dispatch on ordinary slots, so hazards,
//! waves, memory and caches treat it like any kernel. A value that no kernel stores has a slot without memory; a
//! reshaped tensor is the same memory. Sizes and scalars are immediates and inner dimensions are constants of the
//! source, so most kernels serve any outermost length. An invocation computes several rows where these share part of
//! their loads.
//!
//! Bounds: 1,024 operations per segment and 48 per kernel; past them the next one begins.

mod builder;
mod graph;
mod kernel;
mod product;
mod program;
mod tiles;
mod views;
mod wgsl;

use self::graph::Graph;
pub use self::{
    kernel::{KernelSource, MOST_FOLDED},
    program::{Body, Expr, Head, Indexing, Product, Program, ProgramBuffer, Reduce},
};
use crate::{Access, Caps, Mode, Op, OpKind, Recording, SlotId, Span, TensorIndex, TensorOp, TensorRef};

/// Operations of a segment: deciding who may join whom takes time that grows with the square of it.
const SEGMENT: usize = 1024;

/// A recording without tensor operations, and what stands for them.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Slots and kernels are those of the original. An op of kind [`OpKind::Tensor`] runs one of the programs.
    pub recording: Recording,
    /// For each op, the op of the original by which it is called.
    pub origin: Vec<u32>,
    /// What the tensor ops run.
    pub programs: Vec<Program>,
    /// For each program, what was recorded for it: tensor operations, views that it reads through, copies that it makes in their place.
    pub members: Vec<Vec<u32>>,
    /// The scalars of each tensor op: where they lie among the bytes given while recording. The op has a span of this list.
    pub scalars: Vec<u32>,
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
        made: vec![false; recording.slots.len()],
        read: vec![false; recording.slots.len()],
        lowered: Lowered {
            recording: Recording::new(),
            origin: Vec::new(),
            programs: Vec::new(),
            members: Vec::new(),
            scalars: Vec::new(),
        },
    };
    for slot in &recording.slots {
        lowering.lowered.recording.push_slot(*slot);
    }
    for kernel in &recording.kernels {
        lowering.lowered.recording.push_kernel(*kernel);
    }
    for port in recording.inputs.iter() {
        lowering.lowered.recording.push_input(port.slot, port.bytes);
    }
    for port in recording.outputs.iter() {
        lowering.lowered.recording.push_output(port.slot, port.bytes);
    }
    for (number, op) in (0..).zip(&recording.ops) {
        match op.kind {
            OpKind::Tensor { tensor, .. } => lowering.tensor(number, tensor),
            _ => lowering.plain(number, op),
        }
    }
    lowering.flush();
    lowering.lowered
}

/// Who uses a slot, in the whole recording.
#[derive(Debug)]
struct Uses {
    /// Ops that are no tensor operations.
    plain: Vec<u32>,
    /// Tensor operations that read it.
    readers: Vec<Vec<u32>>,
}

impl Uses {
    fn of(recording: &Recording) -> Self {
        let mut uses = Self { plain: vec![0; recording.slots.len()], readers: vec![Vec::new(); recording.slots.len()] };
        for (number, op) in (0..).zip(&recording.ops) {
            if let OpKind::Tensor { tensor, .. } = op.kind {
                for input in recording.tensors[tensor.0 as usize].inputs() {
                    let readers = &mut uses.readers[input.slot.0 as usize];
                    if readers.last() != Some(&number) {
                        readers.push(number);
                    }
                }
            } else {
                recording.accesses_of(op).iter().for_each(|access| uses.plain[access.slot.0 as usize] += 1);
            }
        }
        uses
    }
}

/// A value that is made where a copy would have put it.
#[derive(Debug, Clone, Copy)]
struct StoreTarget {
    slot: SlotId,
    /// The slot and byte of that place.
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
    /// Reads of what it makes.
    reads: Vec<u32>,
    /// Values that are made where a copy would have put them.
    stored: Vec<StoreTarget>,
    /// By slot: made, and read, by the segment.
    made: Vec<bool>,
    read: Vec<bool>,
    lowered: Lowered,
}

impl Lowering<'_> {
    fn tensor(&mut self, number: u32, tensor: TensorIndex) {
        let tensor = &self.recording.tensors[tensor.0 as usize];
        let stored = |input: &TensorRef| self.stored.iter().any(|stored| stored.place == input.slot);
        if self.pending.len() >= SEGMENT || tensor.inputs().iter().any(stored) {
            self.flush();
        }
        tensor.inputs().iter().for_each(|input| self.read[input.slot.0 as usize] = true);
        self.made[tensor.output.slot.0 as usize] = true;
        self.pending.push(number);
    }

    fn plain(&mut self, number: u32, op: &Op) {
        let accesses = self.recording.accesses_of(op);
        let made = |access: &Access| self.made[access.slot.0 as usize];
        let disturbs =
            |access: &Access| made(access) || (access.mode != Mode::Read && self.read[access.slot.0 as usize]);
        match op.kind {
            OpKind::Read { .. } if accesses.iter().any(made) => return self.reads.push(number),
            OpKind::Copy if self.stores(accesses) => {
                let [from, to] = accesses else { unreachable!("a copy has two ends") };
                self.stored.push(StoreTarget { slot: from.slot, place: to.slot, start: to.start, op: number });
                self.made[to.slot.0 as usize] = true;
                return;
            }
            OpKind::Barrier | OpKind::Split => self.flush(),
            _ if accesses.iter().any(disturbs) => self.flush(),
            _ => {}
        }
        self.keep(number);
    }

    /// Whether a copy is all that becomes of a value of the segment, but for other values of it: then it can be made in the copy's place.
    fn stores(&self, accesses: &[Access]) -> bool {
        let [from, to] = accesses else { return false };
        let (source, target) = (from.slot.0 as usize, to.slot.0 as usize);
        let whole = from.start == 0 && from.end == self.recording.slots[source].bytes;
        let aligned = to.start.is_multiple_of(u64::from(self.caps.params_align.max(1)));
        let here = self.uses.readers[source].iter().all(|reader| self.pending.contains(reader));
        let made = self.pending.iter().any(|number| tensor_of(self.recording, *number).output.slot == from.slot);
        let free = !self.made[target] && !self.read[target] && from.slot != to.slot;
        made && whole && aligned && here && free && self.uses.plain[source] == 1
    }

    /// Appends an op as it is.
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

    /// Ends the segment.
    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let stored = std::mem::take(&mut self.stored);
        let copy = |slot: SlotId| stored.iter().find(|stored| stored.slot == slot);
        let place = |(slot, bytes): (SlotId, std::ops::Range<u64>)| match copy(slot) {
            Some(StoreTarget { place, start, .. }) => (*place, bytes.start + start..bytes.end + start),
            None => (slot, bytes),
        };
        for kernel in Graph::new(self.recording, self.caps, &self.uses, &pending).kernels() {
            let mut members = kernel.members;
            members.extend(kernel.writes.iter().filter_map(|(slot, _)| copy(*slot)).map(|stored| stored.op));
            members.sort_unstable();
            self.lowered.members.push(members);
            let inputs = kernel.reads.into_iter().map(place).map(|(slot, bytes)| Access::read(slot, bytes));
            let outputs = kernel.writes.into_iter().map(place).map(|(slot, bytes)| Access::write(slot, bytes));
            let accesses = self.accesses(inputs.chain(outputs));
            let first = self.lowered.scalars.len();
            self.lowered.scalars.extend(kernel.scalars);
            let kind = OpKind::Tensor {
                tensor: TensorIndex(u32::try_from(self.lowered.programs.len()).expect("no more programs than ops")),
                scalars: Span::new(first..self.lowered.scalars.len()),
            };
            let op = Op { kind, accesses };
            self.lowered.programs.push(kernel.program);
            self.push(kernel.origin, op);
        }
        let reads = std::mem::take(&mut self.reads);
        reads.into_iter().for_each(|number| self.keep(number));
        for number in pending {
            let tensor = tensor_of(self.recording, number);
            tensor.inputs().iter().for_each(|input| self.read[input.slot.0 as usize] = false);
            self.made[tensor.output.slot.0 as usize] = false;
        }
        stored.iter().for_each(|stored| self.made[stored.place.0 as usize] = false);
    }
}

/// The tensor operation that an op of a recording is.
fn tensor_of(recording: &Recording, op: u32) -> &TensorOp {
    match recording.ops[op as usize].kind {
        OpKind::Tensor { tensor, .. } => &recording.tensors[tensor.0 as usize],
        kind => unreachable!("{kind:?} is no tensor operation"),
    }
}

/// A kernel with what it is bound to.
#[derive(Debug)]
struct BoundProgram {
    program: Program,
    reads: Vec<(SlotId, std::ops::Range<u64>)>,
    writes: Vec<(SlotId, std::ops::Range<u64>)>,
    /// Where its scalars lie.
    scalars: Vec<u32>,
    /// The last of its operations.
    origin: u32,
    /// All of them, and the views it reads through.
    members: Vec<u32>,
}
