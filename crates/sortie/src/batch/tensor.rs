//! The parts of a batch that tensor operations use: memory and ops.

use std::panic::Location;

use sortie_plan::{Mode, Op, OpKind, SlotId, TensorOp};

use super::{Batch, BindTarget};
use crate::{
    error::{CallSite, Error, Result},
    memory::Usage,
};

impl Batch {
    /// Maximum bytes of a tensor: a kernel binds the whole tensor.
    pub(crate) fn most_bytes(&self) -> u64 {
        let limits = self.core.limits();
        limits.binding_bytes.min(limits.buffer_bytes)
    }

    /// Memory that lives for this batch.
    pub(crate) fn tensor_slot(&self, bytes: u64) -> SlotId {
        self.recorder().scratch(bytes.next_multiple_of(4).max(4))
    }

    /// The slot of existing memory and the start byte in it; `None` if it has no bytes.
    pub(crate) fn memory_of(&self, place: &BindTarget<'_>) -> Result<Option<(SlotId, u64)>> {
        let slot_range = self.op_recorder().slot_range("tensor", place, Usage::Storage)?;
        Ok(slot_range.map(|slot_range| (slot_range.slot, slot_range.start)))
    }

    /// Whether a binding may start at this byte.
    pub(crate) fn is_bindable(&self, start: u64) -> bool {
        start.is_multiple_of(u64::from(self.core.limits().slice_alignment))
    }

    pub(crate) fn record_tensor(&self, tensor: TensorOp, scalars: &[u32], at: CallSite) {
        let mut recorder = self.recorder();
        // Operations with equal numbers are joined if the numbers have one place.
        let scalars = match *scalars {
            [first] if self.core.joins() => recorder.numbers((first, None)),
            [first, second] if self.core.joins() => recorder.numbers((first, Some(second))),
            _ => recorder.append_scalars(scalars),
        };
        let tensor = recorder.recording.push_tensor(tensor);
        recorder.push(Op::bare(OpKind::Tensor { tensor, scalars }), at);
    }

    #[track_caller]
    pub(crate) fn refuse_tensor(&self, error: Error) {
        self.recorder().refuse(error, Location::caller());
    }

    /// Labels the last op that writes a slot; without one, the last op.
    pub(crate) fn label_op(&self, slot: Option<SlotId>, label: &str) {
        let mut recorder = self.recorder();
        let recording = &recorder.recording;
        let writes = |op: &Op| match (op.kind, slot) {
            (_, None) => true,
            (OpKind::Tensor { tensor, .. }, Some(slot)) => recording.tensors[tensor.0 as usize].output.slot == slot,
            (_, Some(slot)) => {
                recording.accesses_of(op).iter().any(|access| access.slot == slot && access.mode != Mode::Read)
            }
        };
        if let Some(op) = recording.ops.iter().rposition(writes) {
            recorder.resources.names.label(op, label);
        }
    }
}
