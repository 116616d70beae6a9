//! What tensor operations need of a batch: memory, and a place among its ops.

use std::{panic::Location, sync::Arc};

use sortie_plan::{Op, OpKind, SlotId, Span, TensorOp};

use super::{Batch, Place};
use crate::{
    device::Shared,
    error::{Error, Result},
    memory::Use,
};

impl Batch {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Most bytes of a tensor: a kernel binds all of it.
    pub(crate) fn most_bytes(&self) -> u64 {
        let limits = self.shared.limits();
        limits.binding_bytes.min(limits.buffer_bytes)
    }

    /// Memory that lives for this batch.
    pub(crate) fn tensor_slot(&mut self, bytes: u64) -> SlotId {
        self.tape().scratch(bytes.next_multiple_of(4).max(4))
    }

    /// The slot of something that is there already, and the byte of it that it starts at; `None` when it has no bytes.
    pub(crate) fn memory_of(&mut self, place: &Place<'_>) -> Result<Option<(SlotId, u64)>> {
        let spot = self.recorder().spot("tensor", place, Use::Storage)?;
        Ok(spot.map(|spot| (spot.slot, spot.start)))
    }

    /// Whether a kernel can be bound from this byte on.
    pub(crate) fn is_bindable(&self, start: u64) -> bool {
        start.is_multiple_of(u64::from(self.shared.limits().slice_alignment))
    }

    pub(crate) fn record_tensor(&mut self, tensor: TensorOp, scalars: &[u32], at: &'static Location<'static>) {
        let tape = self.tape();
        let start = tape.payload.immediates.len();
        tape.payload.immediates.extend_from_slice(bytemuck::cast_slice(scalars));
        let scalars = Span::new(start..tape.payload.immediates.len());
        let tensor = tape.recording.push_tensor(tensor);
        tape.push(Op::bare(OpKind::Tensor { tensor, scalars }), at);
    }

    #[track_caller]
    pub(crate) fn refuse_tensor(&mut self, error: Error) {
        self.tape().refuse(error, Location::caller());
    }

    pub(crate) fn label_last(&mut self, label: &str) {
        let tape = self.tape();
        if let Some(last) = tape.recording.ops.len().checked_sub(1) {
            tape.payload.names.label(last, label);
        }
    }
}
