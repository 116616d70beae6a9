//! Writes the joined recording.
//!
//! Invariant: `place` has the memory of each original slot at the point that is written: a range of a group's slot once
//! the group that makes it is written, else the slot itself.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{
    Joined,
    unit::{Units, is_elementwise, roles},
};
use crate::{
    Access, Caps, Mode, Op, OpKind, Recording, Shape, SlotId, SlotInfo, SlotKind, Span, TensorKind, TensorOp, TensorRef,
};

/// Maximum bytes of a group's slot.
const MAX_BYTES: u64 = 1 << 30;

/// Maximum rows that are joined: more do not make a kernel faster, and a kernel's grid has limits.
const MAX_ROWS: u32 = 1 << 16;

pub(super) struct Emitter<'a> {
    pub(super) recording: &'a Recording,
    pub(super) caps: &'a Caps,
    /// By slot: its memory must be its own.
    pub(super) pinned: Vec<bool>,
    /// Kept from stretch to stretch.
    pub(super) makers: Vec<u32>,
    /// By slot: written once, as a whole, and otherwise only read, copied and used by tensor operations.
    is_data: Vec<bool>,
    /// By slot: rows of units that are joined.
    is_rows: Vec<bool>,
    joined: Joined,
    /// By original slot.
    place: Vec<(SlotId, u64)>,
    /// Of equal views of one value, the slot of the first.
    canonical: FxHashMap<SlotId, SlotId>,
    views: FxHashMap<(TensorKind, TensorRef, Shape), SlotId>,
}

/// The tensor operation of an op.
pub(super) fn tensor_of(recording: &Recording, op: u32) -> &TensorOp {
    match recording.ops[op as usize].kind {
        OpKind::Tensor { tensor, .. } => &recording.tensors[tensor.0 as usize],
        kind => unreachable!("{kind:?} is no tensor operation"),
    }
}

impl<'a> Emitter<'a> {
    pub(super) fn new(recording: &'a Recording, caps: &'a Caps) -> Self {
        let mut pinned = vec![false; recording.slots.len()];
        for op in &recording.ops {
            for (at, access) in recording.accesses_of(op).iter().enumerate() {
                let ranges = matches!(op.kind, OpKind::Read { .. }) || (op.kind == OpKind::Copy && at == 0);
                pinned[access.slot.0 as usize] |= !ranges || access.start % 4 != 0 || access.mode != Mode::Read;
            }
        }
        recording.outputs.iter().chain(recording.inputs.iter()).for_each(|port| pinned[port.slot.0 as usize] = true);
        Self {
            recording,
            caps,
            is_data: data_of(recording, &pinned),
            is_rows: vec![false; recording.slots.len()],
            pinned,
            makers: Vec::new(),
            joined: Joined {
                recording: recording.without_ops(),
                origin: Vec::with_capacity(recording.ops.len()),
                members: Vec::with_capacity(recording.ops.len()),
                ops: Vec::new(),
                groups: 0,
            },
            place: (0..recording.slots.len()).map(|slot| (SlotId(index(slot)), 0)).collect(),
            canonical: FxHashMap::default(),
            views: FxHashMap::default(),
        }
    }

    /// `None` without groups.
    pub(super) fn finish(self) -> Option<Joined> {
        (self.joined.groups > 0).then_some(self.joined)
    }

    /// Notes which views of a stretch are the same.
    pub(super) fn find_views(&mut self, tensors: &[u32]) {
        self.canonical.clear();
        self.views.clear();
        for op in tensors {
            let tensor = tensor_of(self.recording, *op);
            if let TensorKind::Permute(_) | TensorKind::Broadcast = tensor.kind {
                let key = (tensor.kind, tensor.inputs[0], tensor.output.shape);
                let first = *self.views.entry(key).or_insert(tensor.output.slot);
                self.canonical.insert(tensor.output.slot, first);
            }
        }
    }

    /// The number of a value that is shared by all rows.
    pub(super) fn identity(&self, slot: SlotId) -> u32 {
        self.canonical.get(&slot).unwrap_or(&slot).0
    }

    /// Notes which slots have rows of a unit that is joined.
    pub(super) fn expect_rows(&mut self, ops: &[u32]) {
        for (op, side) in self.operands(ops) {
            let input = tensor_of(self.recording, ops[op]).inputs[side];
            self.is_rows[input.slot.0 as usize] = true;
        }
    }

    /// Appends writes. Data of as many bytes shares a slot if units that are joined read it, so that what is written in
    /// a row is read in a row; what follows in the caller's data, too, is one write.
    pub(super) fn uploads(&mut self, writes: &[u32]) {
        let recording = self.recording;
        let mut groups: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for op in writes {
            // What a replay has written for good has no access.
            let access = recording.accesses_of(&recording.ops[*op as usize]).first();
            let slot = access.map(|access| access.slot.0 as usize);
            match slot.filter(|slot| self.is_data[*slot] && self.is_rows[*slot]) {
                Some(slot) => groups.entry(recording.slots[slot].bytes).or_default().push(*op),
                None => self.keep(*op),
            }
        }
        let mut groups: Vec<(u64, Vec<u32>)> = groups.into_iter().collect();
        groups.sort_unstable_by_key(|(_, ops)| ops[0]);
        for (bytes, ops) in groups {
            let most = (MAX_BYTES.min(self.caps.fill_binding_bytes) / bytes.max(1)).max(1);
            for ops in ops.chunks(usize::try_from(most).unwrap_or(usize::MAX)) {
                self.shared_upload(bytes, ops);
            }
        }
    }

    /// Appends writes of `bytes` each to one slot.
    fn shared_upload(&mut self, bytes: u64, ops: &[u32]) {
        let recording = self.recording;
        let [single] = ops else {
            let slot = self.slot(bytes * ops.len() as u64);
            let (mut at, mut rest) = (0, ops);
            while let [first, ..] = rest {
                let start = data(recording, *first).start;
                let follows = |(number, op): &(u32, &u32)| {
                    let next = u64::from(start) + u64::from(*number) * bytes;
                    u64::from(data(recording, **op).start) == next
                };
                let run = (0..).zip(rest).take_while(follows).count();
                let (taken, behind) = rest.split_at(run);
                rest = behind;
                let end = at + bytes * run as u64;
                for (number, op) in (0..).zip(taken) {
                    let own = recording.accesses_of(&recording.ops[*op as usize])[0].slot.0 as usize;
                    self.place[own] = (slot, at + number * bytes);
                }
                let access = self.joined.recording.accesses.len();
                self.joined.recording.push_access(Access::write(slot, at..end));
                let span = Span { start, len: u32::try_from(end - at).expect("data is indexed by u32") };
                let accesses = Span::new(access..access + 1);
                let first_op = self.joined.ops.len();
                self.joined.ops.extend(taken);
                let members = Span::new(first_op..self.joined.ops.len());
                self.push(*first, members, Op { kind: OpKind::Write { data: span }, accesses });
                at = end;
            }
            return;
        };
        self.keep(*single);
    }

    /// Appends an op of the original in its place.
    pub(super) fn keep(&mut self, number: u32) {
        let op = self.recording.ops[number as usize];
        if let OpKind::Tensor { .. } = op.kind {
            return self.alone(&[number]);
        }
        let first = self.joined.recording.accesses.len();
        for access in self.recording.accesses_of(&op) {
            let (slot, start) = self.place[access.slot.0 as usize];
            let access = Access { slot, start: access.start + start, end: access.end + start, ..*access };
            self.joined.recording.push_access(access);
        }
        let accesses = Span::new(first..self.joined.recording.accesses.len());
        self.push(number, Span::EMPTY, Op { accesses, ..op });
    }

    /// Appends a unit that is not joined.
    pub(super) fn alone(&mut self, ops: &[u32]) {
        for number in ops {
            let mut tensor = *tensor_of(self.recording, *number);
            let strided = is_elementwise(&tensor);
            for at in 0..usize::from(tensor.count) {
                tensor.inputs[at] = self.placed(*number, &tensor.inputs[at], strided);
            }
            self.push_tensor(*number, Span::EMPTY, tensor);
        }
    }

    /// Appends units of one signature that are ready: as groups, or one by one if they are few.
    pub(super) fn group(&mut self, units: &Units, ready: &[u32]) {
        let Some(operands) = ready.first().map(|unit| self.operands(units.ops(*unit))) else { return };
        // What lies side by side is read in place.
        let mut members: Vec<((SlotId, u64), u32)> = ready
            .iter()
            .map(|unit| (operands.first().map_or((SlotId(0), 0), |at| self.operand_of(units, *unit, *at).0), *unit))
            .collect();
        members.sort_unstable_by_key(|(place, unit)| (place.0.0, place.1, *unit));
        let members: Vec<u32> = members.into_iter().map(|(_, unit)| unit).collect();
        let mut rest = &members[..];
        while !rest.is_empty() {
            let most = self.most_rows(units, rest[0]);
            let mut rows = 0_u32;
            let fitting = rest.iter().take_while(|unit| {
                rows = rows.saturating_add(units.list[**unit as usize].rows);
                rows <= most
            });
            let (taken, behind) = rest.split_at(fitting.count().max(1));
            rest = behind;
            if taken.len() < (self.caps.join as usize).max(2) {
                taken.iter().for_each(|unit| self.alone(units.ops(*unit)));
            } else {
                self.stacked(units, taken, &operands);
            }
        }
    }

    /// Rows that fit into one slot.
    fn most_rows(&self, units: &Units, unit: u32) -> u32 {
        let rows = units.list[unit as usize].rows.max(1);
        let values = units.ops(unit).iter().flat_map(|op| {
            let tensor = tensor_of(self.recording, *op);
            tensor.inputs().iter().chain([&tensor.output])
        });
        let row = values.map(|value| u64::from(value.shape.len()) * value.element.bytes() / u64::from(rows)).max();
        let most = MAX_BYTES.min(self.caps.fill_binding_bytes) / row.unwrap_or(4).max(1);
        u32::try_from(most).unwrap_or(u32::MAX).min(MAX_ROWS)
    }

    /// The inputs of a unit that have rows and are made elsewhere: the op within the unit, and its input.
    fn operands(&self, ops: &[u32]) -> Vec<(usize, usize)> {
        let mut operands: Vec<(usize, usize)> = Vec::new();
        let input_of = |(op, side): (usize, usize)| tensor_of(self.recording, ops[op]).inputs[side];
        for (number, op) in ops.iter().enumerate() {
            let tensor = tensor_of(self.recording, *op);
            let Some(roles) = roles(self.recording, &self.pinned, tensor) else { unreachable!("it has a signature") };
            for (side, input) in tensor.inputs().iter().enumerate().filter(|(side, _)| roles.is_row[*side]) {
                let own = ops[..number].iter().any(|op| tensor_of(self.recording, *op).output.slot == input.slot);
                let listed = operands.iter().any(|at| is_same(&input_of(*at), input));
                if !own && !listed {
                    operands.push((number, side));
                }
            }
        }
        operands
    }

    /// The memory of an operand of a unit, and its bytes.
    fn operand_of(&self, units: &Units, unit: u32, (op, side): (usize, usize)) -> ((SlotId, u64), u64) {
        let input = tensor_of(self.recording, units.ops(unit)[op]).inputs[side];
        let (slot, start) = self.place[input.slot.0 as usize];
        ((slot, start + input.start), u64::from(input.shape.len()) * input.element.bytes())
    }

    /// Appends a group.
    fn stacked(&mut self, units: &Units, members: &[u32], operands: &[(usize, usize)]) {
        let recording = self.recording;
        let ops = units.ops(members[0]);
        let rows: u32 = members.iter().map(|unit| units.list[*unit as usize].rows).sum();
        let places: Vec<(SlotId, u64)> = operands.iter().map(|at| self.stack(units, members, *at)).collect();
        let mut outputs: Vec<SlotId> = Vec::with_capacity(ops.len());
        for (number, op) in ops.iter().enumerate() {
            let mut tensor = *tensor_of(recording, *op);
            let Some(roles) = roles(recording, &self.pinned, &tensor) else { unreachable!("it has a signature") };
            let strided = is_elementwise(&tensor);
            let flat = tensor.output.shape.rank() == 1;
            for side in 0..usize::from(tensor.count) {
                let input = tensor.inputs[side];
                if !roles.is_row[side] {
                    let shared = SlotId(self.identity(input.slot));
                    tensor.inputs[side] = self.placed(*op, &TensorRef { slot: shared, ..input }, strided);
                    continue;
                }
                let own = ops[..number].iter().position(|op| tensor_of(recording, *op).output.slot == input.slot);
                let (slot, start) = match own {
                    Some(own) => (outputs[own], 0),
                    None => {
                        let same = |at: &(usize, usize)| is_same(&tensor_of(recording, ops[at.0]).inputs[at.1], &input);
                        let at = operands.iter().position(same);
                        at.map_or_else(|| unreachable!("an operand of the unit"), |at| places[at])
                    }
                };
                let index = tensor.kind == TensorKind::Gather;
                let shape = stacked_shape(&input.shape, rows, input.shape.rank() == 1 && !index);
                tensor.inputs[side] = TensorRef { slot, start, shape, ..input };
            }
            if flat {
                tensor.kind = match tensor.kind {
                    TensorKind::Slice([start, ..]) => TensorKind::Slice([0, start, 0, 0, 0, 0]),
                    TensorKind::Concat(_) => TensorKind::Concat(1),
                    kind => kind,
                };
            }
            let shape = stacked_shape(&tensor.output.shape, rows, flat);
            let slot = self.slot(u64::from(shape.len()) * tensor.output.element.bytes());
            tensor.output = TensorRef { slot, start: 0, shape, ..tensor.output };
            outputs.push(slot);
            let first = self.joined.ops.len();
            self.joined.ops.extend(members.iter().map(|unit| units.ops(*unit)[number]));
            let span = Span::new(first..self.joined.ops.len());
            self.joined.ops[first..].sort_unstable();
            self.push_tensor(*op, span, tensor);
            let mut start = 0;
            for unit in members {
                let output = tensor_of(recording, units.ops(*unit)[number]).output;
                self.place[output.slot.0 as usize] = (slot, start);
                start += u64::from(output.shape.len()) * output.element.bytes();
            }
        }
        self.joined.groups += 1;
    }

    /// The memory with the rows of all members: where they are, if they follow each other, else a copy.
    fn stack(&mut self, units: &Units, members: &[u32], at: (usize, usize)) -> (SlotId, u64) {
        let op = units.ops(members[0])[at.0];
        let mut runs: Vec<(SlotId, Range<u64>)> = Vec::new();
        for unit in members {
            let ((slot, start), bytes) = self.operand_of(units, *unit, at);
            match runs.last_mut() {
                Some((last, run)) if *last == slot && run.end == start => run.end += bytes,
                _ => runs.push((slot, start..start + bytes)),
            }
        }
        if let [(slot, run)] = &runs[..]
            && (is_elementwise(tensor_of(self.recording, op)) || self.is_aligned(run.start))
        {
            return (*slot, run.start);
        }
        (self.copied(op, &runs), 0)
    }

    /// A slot with copies of these ranges, one after the other.
    fn copied(&mut self, op: u32, runs: &[(SlotId, Range<u64>)]) -> SlotId {
        let slot = self.slot(runs.iter().map(|(_, run)| run.end - run.start).sum());
        let mut to = 0;
        for (from, run) in runs {
            let first = self.joined.recording.accesses.len();
            let bytes = (run.end - run.start).next_multiple_of(4);
            self.joined.recording.push_access(Access::read(*from, run.start..run.start + bytes));
            self.joined.recording.push_access(Access::write(slot, to..to + bytes));
            to += bytes;
            let accesses = Span::new(first..self.joined.recording.accesses.len());
            self.push(op, Span::EMPTY, Op { kind: OpKind::Copy, accesses });
        }
        slot
    }

    /// An input where it is now. Products, look-ups and concatenations cannot begin everywhere.
    fn placed(&mut self, op: u32, input: &TensorRef, strided: bool) -> TensorRef {
        let (slot, start) = self.place[input.slot.0 as usize];
        let placed = TensorRef { slot, start: start + input.start, ..*input };
        if strided || start == 0 || self.is_aligned(placed.start) {
            return placed;
        }
        let run = placed.start..placed.end();
        TensorRef { slot: self.copied(op, &[(slot, run)]), start: 0, ..*input }
    }

    fn is_aligned(&self, start: u64) -> bool {
        start.is_multiple_of(u64::from(self.caps.params_align.max(1)))
    }

    fn slot(&mut self, bytes: u64) -> SlotId {
        let bytes = bytes.next_multiple_of(4).max(4);
        self.joined.recording.push_slot(SlotInfo { kind: SlotKind::Scratch, bytes })
    }

    /// Appends the operation of an op, or of all `members`.
    fn push_tensor(&mut self, op: u32, members: Span, tensor: TensorOp) {
        let OpKind::Tensor { scalars, .. } = self.recording.ops[op as usize].kind else { unreachable!("a tensor op") };
        let tensor = self.joined.recording.push_tensor(tensor);
        self.push(op, members, Op::bare(OpKind::Tensor { tensor, scalars }));
    }

    fn push(&mut self, origin: u32, members: Span, op: Op) {
        self.joined.recording.push_op(op);
        self.joined.origin.push(origin);
        self.joined.members.push(members);
    }
}

/// The data of a write.
fn data(recording: &Recording, op: u32) -> Span {
    match recording.ops[op as usize].kind {
        OpKind::Write { data } => data,
        kind => unreachable!("{kind:?} is no write"),
    }
}

/// By slot: whether it is written once, as a whole, and otherwise only read, copied and used by tensor operations.
fn data_of(recording: &Recording, pinned: &[bool]) -> Vec<bool> {
    // What only a write has pinned.
    let mut others = vec![0_u32; pinned.len()];
    let mut is_data = vec![false; pinned.len()];
    for op in &recording.ops {
        for (at, access) in recording.accesses_of(op).iter().enumerate() {
            let slot = access.slot.0 as usize;
            let whole = access.start == 0 && access.end == recording.slots[slot].bytes;
            match op.kind {
                OpKind::Write { data } if whole && u64::from(data.len) == access.end && !is_data[slot] => {
                    is_data[slot] = true;
                }
                OpKind::Read { .. } => {}
                OpKind::Copy if at == 0 && access.start % 4 == 0 => {}
                _ => others[slot] += 1,
            }
        }
    }
    let ports = recording.outputs.iter().chain(recording.inputs.iter());
    ports.for_each(|port| others[port.slot.0 as usize] += 1);
    is_data.iter_mut().zip(&others).for_each(|(is_data, others)| *is_data &= *others == 0);
    is_data
}

/// Whether two inputs are the same rows.
pub(super) fn is_same(one: &TensorRef, other: &TensorRef) -> bool {
    one.slot == other.slot && one.start == other.start && one.shape.len() == other.shape.len()
}

/// A shape with other leading rows; a shape that is one row gets them as a dimension.
fn stacked_shape(shape: &Shape, rows: u32, flat: bool) -> Shape {
    let inner = if flat { shape.dims() } else { &shape.dims()[1..] };
    let mut dims = [rows; crate::RANK];
    dims[1..=inner.len()].copy_from_slice(inner);
    Shape::of(&dims[..=inner.len()])
}

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("lists are indexed by u32")
}
