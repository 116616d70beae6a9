//! The operations of one batch, as flat lists.
//!
//! Recording is the hot path: each call appends to a list and mixes the entry into the fingerprint. The lists are
//! public to read. Invariant: entries are appended through the `push_*` functions and not changed afterwards.

use super::fingerprint::Hashes;
use crate::{Access, Fingerprint, KernelIndex, Op, OpKind, SlotId, SlotInfo, TensorIndex, TensorOp};

/// A list of operations with their operands.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The operations in recorded order.
    pub ops: Vec<Op>,
    /// The accesses of the operations; each op has a [`Span`](crate::Span) of them.
    pub accesses: Vec<Access>,
    /// The slots they access, numbered by first use.
    pub slots: Vec<SlotInfo>,
    /// The tensor operations among the ops.
    pub tensors: Vec<TensorOp>,
    /// Ids of the kernels used, as assigned by the caller.
    pub kernels: Vec<u64>,
    /// The inputs of each run of a replay; empty for a batch.
    pub inputs: Ports,
    /// The outputs of each run of a replay; empty for a batch.
    pub outputs: Ports,
    hashes: Hashes,
}

/// Memory of a replay that each run fills or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port {
    /// The memory.
    pub slot: SlotId,
    /// Start of its data within that of all ports of its list.
    pub start: u64,
    /// Bytes of its data, a multiple of 4.
    pub bytes: u64,
}

/// The inputs or the outputs of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ports {
    list: Vec<Port>,
}

impl Ports {
    /// Appends a port and returns it, with the start of its data.
    fn push(&mut self, slot: SlotId, bytes: u64) -> Port {
        // Mapped ranges start at multiples of 8.
        let port = Port { slot, start: self.bytes().next_multiple_of(8), bytes: bytes.next_multiple_of(4) };
        self.list.push(port);
        port
    }

    /// Bytes of the data of all ports.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.list.last().map_or(0, |port| port.start + port.bytes)
    }
}

impl std::ops::Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.list
    }
}

impl Recording {
    /// An empty recording.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an operation whose accesses, slots and kernel were already appended.
    #[inline]
    pub fn push_op(&mut self, op: Op) {
        self.hashes.op(&op);
        self.ops.push(op);
    }

    /// Appends an access of the next op.
    #[inline]
    pub fn push_access(&mut self, access: Access) {
        debug_assert!(access.start < access.end, "empty access: {access:?}");
        self.hashes.access(&access);
        self.accesses.push(access);
    }

    /// Appends a slot and returns its number.
    #[inline]
    pub fn push_slot(&mut self, slot: SlotInfo) -> SlotId {
        let id = SlotId(next_index(&self.slots));
        self.hashes.slot(&slot);
        self.slots.push(slot);
        id
    }

    /// Appends a tensor operation of the next op.
    pub fn push_tensor(&mut self, tensor: TensorOp) -> TensorIndex {
        let index = TensorIndex(next_index(&self.tensors));
        self.hashes.tensor(&tensor);
        self.tensors.push(tensor);
        index
    }

    /// Appends a kernel id.
    #[inline]
    pub fn push_kernel(&mut self, id: u64) -> KernelIndex {
        let index = KernelIndex(next_index(&self.kernels));
        self.hashes.kernel(id);
        self.kernels.push(id);
        index
    }

    /// Appends an input of a replay: `bytes` of data for a slot. Returns the start of the data within that of all
    /// inputs.
    pub fn push_input(&mut self, slot: SlotId, bytes: u64) -> u64 {
        let port = self.inputs.push(slot, bytes);
        self.hashes.input(&port);
        port.start
    }

    /// Appends an output of a replay: `bytes` of data from a slot. Returns the start of the data within that of all
    /// outputs.
    pub fn push_output(&mut self, slot: SlotId, bytes: u64) -> u64 {
        let port = self.outputs.push(slot, bytes);
        self.hashes.output(&port);
        port.start
    }

    /// The accesses of `op`, one of this recording's.
    #[must_use]
    #[inline]
    pub fn accesses_of(&self, op: &Op) -> &[Access] {
        &self.accesses[op.accesses.range()]
    }

    /// Bytes of memory that the lists take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.ops[..])
            + size_of_val(&self.accesses[..])
            + size_of_val(&self.slots[..])
            + size_of_val(&self.tensors[..])
            + size_of_val(&self.kernels[..])
            + size_of_val(&self.inputs[..])
            + size_of_val(&self.outputs[..])
    }

    /// A recording with the same slots, kernels, inputs and outputs, and without ops.
    #[must_use]
    pub(crate) fn without_ops(&self) -> Self {
        let mut bare = Self::new();
        self.slots.iter().for_each(|slot| _ = bare.push_slot(*slot));
        self.kernels.iter().for_each(|kernel| _ = bare.push_kernel(*kernel));
        self.inputs.iter().for_each(|port| _ = bare.push_input(port.slot, port.bytes));
        self.outputs.iter().for_each(|port| _ = bare.push_output(port.slot, port.bytes));
        bare
    }

    /// The same with the immediates of all dispatches in hidden parameter blocks, and also those of the kernel that
    /// writes patterns, which are `fill_bytes`.
    #[must_use]
    pub fn with_hidden_immediates(&self, fill_bytes: u32) -> Self {
        let mut hidden = self.without_ops();
        self.accesses.iter().for_each(|access| hidden.push_access(*access));
        for op in &self.ops {
            let mut op = *op;
            match &mut op.kind {
                OpKind::Dispatch { immediates, hidden_immediates, .. } => *hidden_immediates = immediates.len,
                OpKind::Fill { pattern, hidden_immediates } if pattern.len > 0 => *hidden_immediates = fill_bytes,
                _ => {}
            }
            hidden.push_op(op);
        }
        hidden
    }

    /// Removes everything but keeps the memory for the next recording.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.accesses.clear();
        self.slots.clear();
        self.tensors.clear();
        self.kernels.clear();
        self.inputs.list.clear();
        self.outputs.list.clear();
        self.hashes = Hashes::default();
    }

    /// The hash that every equal recording shares.
    #[must_use]
    #[inline]
    pub fn fingerprint(&self) -> Fingerprint {
        self.hashes.finish()
    }

    /// Whether both mean the same work, entry by entry: a plan of one is a plan of the other.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.ops == other.ops
            && self.accesses == other.accesses
            && self.slots == other.slots
            && self.tensors == other.tensors
            && self.kernels == other.kernels
            && self.inputs == other.inputs
            && self.outputs == other.outputs
    }
}

fn next_index<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("lists are indexed by u32")
}

#[cfg(test)]
mod tests {
    use super::Recording;
    use crate::draft::Draft;
    use crate::{Access, SlotId, SlotInfo, SlotKind};

    fn two_ops() -> Recording {
        let mut draft = Draft::new();
        let x = draft.external(8);
        let y = draft.scratch(8);
        draft.recording.push_kernel(5);
        draft.dispatch(&[Access::read(x, 0..8), Access::write(y, 0..8)]);
        draft.transfer(&[Access::read(y, 0..4), Access::write(x, 0..4)]);
        draft.recording
    }

    #[test]
    fn equal_recordings_are_the_same_and_share_a_fingerprint() {
        let (left, right) = (two_ops(), two_ops());
        assert!(left.same_as(&right));
        assert_eq!(left.fingerprint(), right.fingerprint());
    }

    #[test]
    fn any_further_entry_makes_a_recording_another() {
        let pushes: [fn(&mut Recording); 6] = [
            |r| r.push_op(r.ops[0]),
            |r| r.push_access(Access::read(SlotId(0), 0..1)),
            |r| {
                r.push_kernel(0);
            },
            |r| {
                r.push_slot(SlotInfo { kind: SlotKind::Scratch, bytes: 0 });
            },
            |r| {
                r.push_input(SlotId(0), 4);
            },
            |r| {
                r.push_output(SlotId(0), 4);
            },
        ];
        let base = two_ops();
        for push in pushes {
            let mut longer = base.clone();
            push(&mut longer);
            assert!(!longer.same_as(&base));
            assert_ne!(longer.fingerprint(), base.fingerprint());
        }
    }

    #[test]
    fn the_fingerprint_does_not_depend_on_when_a_list_grew() {
        let slot = SlotInfo { kind: SlotKind::Scratch, bytes: 4 };
        let op = two_ops().ops[0];

        let mut slot_first = Recording::new();
        slot_first.push_slot(slot);
        slot_first.push_op(op);

        let mut op_first = Recording::new();
        op_first.push_op(op);
        op_first.push_slot(slot);

        assert!(slot_first.same_as(&op_first));
        assert_eq!(slot_first.fingerprint(), op_first.fingerprint());
    }

    #[test]
    fn a_cleared_recording_is_as_good_as_new_and_keeps_its_memory() {
        let mut recording = two_ops();
        let room = recording.ops.capacity();
        recording.push_input(SlotId(0), 4);
        recording.clear();
        assert!(recording.same_as(&Recording::new()));
        assert_eq!(recording.fingerprint(), Recording::new().fingerprint());
        assert_eq!(recording.ops.capacity(), room);
    }

    #[test]
    fn an_op_finds_its_own_accesses() {
        let recording = two_ops();
        assert_eq!(
            recording.accesses_of(&recording.ops[1]),
            [Access::read(SlotId(1), 0..4), Access::write(SlotId(0), 0..4)]
        );
    }

    #[test]
    fn ports_follow_each_other_at_multiples_of_8() {
        let mut recording = two_ops();
        let starts = [6, 4, 12, 1].map(|bytes| recording.push_input(SlotId(0), bytes));
        assert_eq!((starts, recording.inputs.bytes()), ([0, 8, 16, 32], 36));
        assert_eq!(recording.push_output(SlotId(1), 3), 0);
        assert_eq!(recording.outputs[0].bytes, 4);
    }
}
