//! Units of a stretch, their signatures, and the order in which they run.

use std::{cmp::Reverse, collections::BinaryHeap};

use rustc_hash::FxHashMap;

use super::{emit::Emitter, stretch::Stretch};
use crate::{Function, OpKind, Recording, Shape, SlotId, SlotKind, Span, TensorKind, TensorOp, TensorRef};

/// Maximum operations of a cell: what many instances share must not make one unit of all of them.
const MAX_CELL: u32 = 64;

/// Operations that are joined with those of other units, or not at all.
#[derive(Debug)]
pub(super) struct Unit {
    /// Ops in recorded order: a range of the list of all.
    nodes: Span,
    /// `u32::MAX` if no other unit is alike.
    signature: u32,
    /// Leading rows.
    pub(super) rows: u32,
    /// Inputs that other units of the stretch are yet to make.
    waits: u32,
    depth: u32,
}

/// The units of a stretch.
pub(super) struct Units {
    pub(super) list: Vec<Unit>,
    /// Ops, unit by unit.
    nodes: Vec<u32>,
    /// By slot: the unit that makes it, or [`NONE`].
    unit_of: Vec<u32>,
}

/// No unit.
const NONE: u32 = u32::MAX;

impl Units {
    /// The unit of this stretch that makes a slot.
    fn maker(&self, slot: SlotId) -> Option<u32> {
        Some(self.unit_of[slot.0 as usize]).filter(|unit| *unit != NONE)
    }

    /// The ops of a unit.
    pub(super) fn ops(&self, unit: u32) -> &[u32] {
        &self.nodes[self.list[unit as usize].nodes.range()]
    }
}

/// Runs a stretch: in groups where several units are alike.
pub(super) fn run(emitter: &mut Emitter<'_>, stretch: &Stretch) {
    let units = Units::of(emitter, &stretch.tensors);
    match units {
        Some(mut units) => {
            let rows = units.list.iter().enumerate().filter(|(_, unit)| unit.signature != NONE);
            for (unit, _) in rows {
                emitter.expect_rows(units.ops(index(unit)));
            }
            emitter.uploads(&stretch.first);
            agenda(emitter, &mut units);
            units.give_back(emitter, &stretch.tensors);
            stretch.last.iter().for_each(|op| emitter.keep(*op));
        }
        None => stretch.ops.clone().for_each(|op| emitter.keep(op)),
    }
    stretch.fence.into_iter().for_each(|op| emitter.keep(op));
}

/// How an operation's inputs relate to its leading rows.
pub(super) struct Roles {
    pub(super) rows: u32,
    /// Which inputs have the same leading rows; the others are the same for all rows.
    pub(super) is_row: [bool; 3],
}

/// Whether an operation computes each leading row from the same row of some inputs, and from others that all rows
/// share.
pub(super) fn roles(recording: &Recording, pinned: &[bool], op: &TensorOp) -> Option<Roles> {
    let out = &op.output;
    let rank = out.shape.rank();
    if pinned[out.slot.0 as usize] || out.start != 0 || rank == 0 || out.shape.is_empty() {
        return None;
    }
    let rows = leading(&out.shape);
    let scratch = |input: &TensorRef| recording.slots[input.slot.0 as usize].kind == SlotKind::Scratch;
    // Rows are copied and bound as whole words.
    let whole = |value: &TensorRef, rows: u32| {
        (u64::from(value.shape.len() / rows.max(1)) * value.element.bytes()).is_multiple_of(4)
    };
    let row = |input: &TensorRef| {
        input.shape.rank() == rank && leading(&input.shape) == rows && scratch(input) && whole(input, rows)
    };
    let inputs = op.inputs();
    let mut is_row = [false; 3];
    let fits = match op.kind {
        TensorKind::Map(_) => {
            for (is_row, input) in is_row.iter_mut().zip(inputs) {
                *is_row = row(input);
            }
            let shared = |(input, is_row): (&TensorRef, &bool)| {
                let rank = input.shape.rank();
                *is_row || rank < out.shape.rank() || leading(&input.shape) == 1
            };
            is_row.contains(&true) && inputs.iter().zip(&is_row).all(shared)
        }
        TensorKind::Slice(start) => {
            is_row[0] = row(&inputs[0]);
            is_row[0] && (rank == 1 || start[0] == 0)
        }
        TensorKind::Matmul { transposed: [false, _] } => {
            is_row[0] = row(&inputs[0]);
            is_row[0] && rank == 2 && inputs[1].shape.rank() == 2
        }
        TensorKind::Gather => {
            let index = &inputs[1];
            is_row[1] = rank >= 2 && index.shape.rank() >= 1 && index.shape.dims()[0] == rows && scratch(index);
            is_row[1]
        }
        TensorKind::Concat(axis) => {
            is_row = [row(&inputs[0]), row(&inputs[1]), false];
            is_row[0] && is_row[1] && (rank == 1 || axis > 0)
        }
        TensorKind::Rows(_) => {
            is_row[0] = row(&inputs[0]);
            is_row[0]
        }
        TensorKind::Reduce(_, axes, parts) => {
            let input = &inputs[0];
            is_row[0] =
                input.shape.rank() >= 2 && input.shape.dims()[0] == rows && scratch(input) && whole(input, rows);
            is_row[0] && rank >= 2 && axes & 1 == 0 && parts <= 1
        }
        TensorKind::Matmul { .. } | TensorKind::Permute(_) | TensorKind::Broadcast => false,
    };
    (fits && whole(out, rows)).then_some(Roles { rows, is_row })
}

/// Rows of a shape: a shape of one dimension is one row.
fn leading(shape: &Shape) -> u32 {
    if shape.rank() >= 2 { shape.dims()[0] } else { 1 }
}

/// Whether an operation is part of a cell.
pub(super) fn is_elementwise(op: &TensorOp) -> bool {
    matches!(op.kind, TensorKind::Map(_) | TensorKind::Slice(_))
}

/// An operation while units are found.
#[derive(Clone, Copy)]
struct Node {
    op: u32,
    /// The node that stands for its cell.
    root: u32,
    depth: u32,
    /// Of the cell, at its root.
    size: u32,
}

fn root(nodes: &mut [Node], node: u32) -> u32 {
    let mut at = node;
    while nodes[at as usize].root != at {
        let up = nodes[nodes[at as usize].root as usize].root;
        nodes[at as usize].root = up;
        at = up;
    }
    at
}

impl Units {
    /// `None` if too few are alike.
    fn of(emitter: &mut Emitter<'_>, tensors: &[u32]) -> Option<Self> {
        let recording = emitter.recording;
        let least = emitter.caps.join as usize;
        if tensors.len() < least.max(2) {
            return None;
        }
        let op_of = |op: u32| super::emit::tensor_of(recording, op);
        // Cells: elementwise operations that read each other, at one depth, so that no unit needs itself.
        let mut nodes: Vec<Node> = Vec::with_capacity(tensors.len());
        let mut made = std::mem::take(&mut emitter.makers);
        made.resize(recording.slots.len(), NONE);
        for (number, op) in (0..).zip(tensors) {
            let tensor = op_of(*op);
            let cell = is_elementwise(tensor);
            let mut makers = [None; 3];
            for (maker, input) in makers.iter_mut().zip(tensor.inputs()) {
                *maker = Some(made[input.slot.0 as usize]).filter(|maker| *maker != NONE);
            }
            let in_cell = |maker: u32| cell && is_elementwise(op_of(nodes[maker as usize].op));
            let depth = makers.iter().flatten().map(|maker| nodes[*maker as usize].depth + u32::from(!in_cell(*maker)));
            let mut depth = depth.max().unwrap_or(0);
            let same: [Option<u32>; 3] =
                makers.map(|maker| maker.filter(|maker| in_cell(*maker) && nodes[*maker as usize].depth == depth));
            nodes.push(Node { op: *op, root: number, depth, size: 1 });
            let mut roots = same.map(|maker| maker.map(|maker| root(&mut nodes, maker)));
            for at in 1..3 {
                if roots[..at].contains(&roots[at]) {
                    roots[at] = None;
                }
            }
            let size: u32 = 1 + roots.iter().flatten().map(|root| nodes[*root as usize].size).sum::<u32>();
            if size > MAX_CELL {
                depth += 1;
                nodes[number as usize].depth = depth;
            } else {
                roots.iter().flatten().for_each(|root| nodes[*root as usize].root = number);
                nodes[number as usize].size = size;
            }
            made[tensor.output.slot.0 as usize] = number;
        }
        emitter.find_views(tensors);
        let units = Self::collect(&mut nodes, made, recording);
        let alike = units.signed(emitter, least);
        if let Err(units) = alike {
            units.give_back(emitter, tensors);
            return None;
        }
        alike.ok()
    }

    /// Returns the list of makers for the next stretch.
    fn give_back(self, emitter: &mut Emitter<'_>, tensors: &[u32]) {
        emitter.makers = self.unit_of;
        for op in tensors {
            emitter.makers[super::emit::tensor_of(emitter.recording, *op).output.slot.0 as usize] = NONE;
        }
    }

    fn collect(nodes: &mut [Node], made: Vec<u32>, recording: &Recording) -> Self {
        let mut unit_of_root: Vec<u32> = vec![u32::MAX; nodes.len()];
        let mut unit_of_node: Vec<u32> = Vec::with_capacity(nodes.len());
        let mut list: Vec<Unit> = Vec::new();
        for node in 0..nodes.len() {
            let root = root(nodes, index(node)) as usize;
            if unit_of_root[root] == u32::MAX {
                unit_of_root[root] = index(list.len());
                let depth = nodes[node].depth;
                list.push(Unit { nodes: Span::EMPTY, signature: u32::MAX, rows: 0, waits: 0, depth });
            }
            list[unit_of_root[root] as usize].nodes.len += 1;
            unit_of_node.push(unit_of_root[root]);
        }
        let mut start = 0;
        for unit in &mut list {
            unit.nodes.start = start;
            start += std::mem::take(&mut unit.nodes.len);
        }
        let mut all = vec![0; nodes.len()];
        for (node, unit) in nodes.iter().zip(&unit_of_node) {
            let span = &mut list[*unit as usize].nodes;
            all[(span.start + span.len) as usize] = node.op;
            span.len += 1;
        }
        let mut unit_of = made;
        for (node, unit) in nodes.iter().zip(&unit_of_node) {
            unit_of[super::emit::tensor_of(recording, node.op).output.slot.0 as usize] = *unit;
        }
        for (node, unit) in nodes.iter().zip(&unit_of_node) {
            for input in super::emit::tensor_of(recording, node.op).inputs() {
                let maker = unit_of[input.slot.0 as usize];
                let other = maker != NONE && maker != *unit;
                list[*unit as usize].waits += u32::from(other);
            }
        }
        Self { list, nodes: all, unit_of }
    }

    /// Finds out which units are alike; an error if too few are.
    fn signed(mut self, emitter: &Emitter<'_>, least: usize) -> Result<Self, Self> {
        let mut known: FxHashMap<Box<[u32]>, u32> = FxHashMap::default();
        let mut counts: Vec<usize> = Vec::new();
        let mut words = Vec::new();
        for unit in 0..self.list.len() {
            words.clear();
            let Some(rows) = sign(emitter, self.ops(index(unit)), &mut words) else { continue };
            let next = index(counts.len());
            let signature = match known.get(&words[..]) {
                Some(signature) => *signature,
                None => {
                    known.insert(words.clone().into(), next);
                    counts.push(0);
                    next
                }
            };
            counts[signature as usize] += 1;
            (self.list[unit].signature, self.list[unit].rows) = (signature, rows);
        }
        let few = |signature: u32| counts.get(signature as usize).is_none_or(|count| *count < least.max(2));
        let mut any = false;
        for unit in &mut self.list {
            if few(unit.signature) {
                unit.signature = u32::MAX;
            }
            any |= unit.signature != u32::MAX;
        }
        if any { Ok(self) } else { Err(self) }
    }
}

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("lists are indexed by u32")
}

/// Writes the signature of a unit. Returns its leading rows; `None` if it cannot be joined.
fn sign(emitter: &Emitter<'_>, ops: &[u32], words: &mut Vec<u32>) -> Option<u32> {
    let recording = emitter.recording;
    let mut rows = None;
    let mut operands: Vec<&TensorRef> = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let tensor = super::emit::tensor_of(recording, *op);
        let roles = roles(recording, &emitter.pinned, tensor)?;
        if *rows.get_or_insert(roles.rows) != roles.rows {
            return None;
        }
        kind(tensor, words);
        words.push(u32::from(tensor.numbers) << 8 | u32::from(tensor.count) << 4 | tensor.output.element as u32);
        shape(&tensor.output.shape, 1, words);
        let OpKind::Tensor { scalars, .. } = recording.ops[*op as usize].kind else { return None };
        if scalars.len > 0 {
            words.extend([scalars.start, scalars.len]);
        }
        for (input, is_row) in tensor.inputs().iter().zip(roles.is_row) {
            let before =
                ops[..number].iter().position(|op| super::emit::tensor_of(recording, *op).output.slot == input.slot);
            match (before, is_row) {
                (Some(before), true) if input.start == 0 => words.extend([0, index(before)]),
                // Shared by all rows, but made by these.
                (Some(_), _) => return None,
                (None, true) => {
                    let known = operands.iter().position(|operand| super::emit::is_same(operand, input));
                    if known.is_none() {
                        operands.push(input);
                    }
                    words.extend([1, index(known.unwrap_or(operands.len() - 1))]);
                }
                (None, false) => {
                    let [low, high] = [input.start as u32, (input.start >> 32) as u32];
                    words.extend([2, emitter.identity(input.slot), low, high]);
                }
            }
            words.push(input.element as u32);
            shape(&input.shape, usize::from(is_row), words);
        }
    }
    rows
}

/// The lengths of a shape, without the outermost if that is rows.
fn shape(shape: &Shape, skip: usize, words: &mut Vec<u32>) {
    words.push(index(shape.rank()));
    words.extend(&shape.dims()[if shape.rank() >= 2 { skip } else { 0 }..]);
}

fn kind(op: &TensorOp, words: &mut Vec<u32>) {
    match op.kind {
        TensorKind::Map(f) => words.extend([0, function(f)]),
        TensorKind::Permute(axes) => words.extend([1].into_iter().chain(axes.map(u32::from))),
        TensorKind::Slice(start) => words.extend([2].into_iter().chain(start)),
        TensorKind::Broadcast => words.push(3),
        TensorKind::Concat(axis) => words.extend([4, u32::from(axis)]),
        TensorKind::Gather => words.push(5),
        TensorKind::Matmul { transposed } => words.extend([6, transposed[0].into(), transposed[1].into()]),
        TensorKind::Reduce(f, axes, parts) => words.extend([7, f as u32, axes.into(), parts]),
        TensorKind::Rows(f) => words.extend([8, f as u32]),
    }
}

fn function(f: Function) -> u32 {
    f as u32
}

/// Runs all units: what has no like as soon as it is ready, then the signature that is the least deep.
fn agenda(emitter: &mut Emitter<'_>, units: &mut Units) {
    let signatures = units.list.iter().filter(|unit| unit.signature != u32::MAX).map(|unit| unit.signature + 1).max();
    let mut remaining = vec![(0_u64, 0_u64); signatures.unwrap_or(0) as usize];
    for unit in units.list.iter().filter(|unit| unit.signature != u32::MAX) {
        let (count, depth) = &mut remaining[unit.signature as usize];
        *count += 1;
        *depth += u64::from(unit.depth);
    }
    let readers = Readers::of(emitter.recording, units);
    let mut ready: Vec<Vec<u32>> = vec![Vec::new(); remaining.len()];
    let mut alone: Vec<u32> = Vec::new();
    // Ready signatures by average depth; the average changes only when the signature itself runs.
    let mut order: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut open: Vec<u32> =
        (0..index(units.list.len())).filter(|unit| units.list[*unit as usize].waits == 0).collect();
    loop {
        for unit in open.drain(..) {
            let signature = units.list[unit as usize].signature;
            let Some(list) = ready.get_mut(signature as usize) else {
                alone.push(unit);
                continue;
            };
            if list.is_empty() {
                let (count, depth) = remaining[signature as usize];
                order.push(Reverse((depth * 1024 / count.max(1), signature)));
            }
            list.push(unit);
        }
        let group = if alone.is_empty() {
            let Some(Reverse((_, signature))) = order.pop() else { break };
            let group = std::mem::take(&mut ready[signature as usize]);
            let (count, depth) = &mut remaining[signature as usize];
            for unit in &group {
                *count -= 1;
                *depth -= u64::from(units.list[*unit as usize].depth);
            }
            emitter.group(units, &group);
            group
        } else {
            alone.iter().for_each(|unit| emitter.alone(units.ops(*unit)));
            std::mem::take(&mut alone)
        };
        for unit in group {
            for reader in readers.of_unit(unit) {
                let waits = &mut units.list[*reader as usize].waits;
                *waits -= 1;
                if *waits == 0 {
                    open.push(*reader);
                }
            }
        }
    }
}

/// By unit: the units that read its outputs, once per input.
struct Readers {
    ends: Vec<u32>,
    list: Vec<u32>,
}

impl Readers {
    fn of(recording: &Recording, units: &Units) -> Self {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for unit in 0..index(units.list.len()) {
            for op in units.ops(unit) {
                let makers = super::emit::tensor_of(recording, *op).inputs().iter();
                let makers = makers.filter_map(|input| units.maker(input.slot));
                edges.extend(makers.filter(|maker| *maker != unit).map(|maker| (maker, unit)));
            }
        }
        let mut ends = vec![0; units.list.len() + 1];
        edges.iter().for_each(|(maker, _)| ends[*maker as usize + 1] += 1);
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut list = vec![0; edges.len()];
        for (maker, reader) in edges {
            list[ends[maker as usize] as usize] = reader;
            ends[maker as usize] += 1;
        }
        Self { ends, list }
    }

    fn of_unit(&self, unit: u32) -> &[u32] {
        let start = unit.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.list[start as usize..self.ends[unit as usize] as usize]
    }
}
