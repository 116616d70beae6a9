//! Data that a recording writes to memory of its own and never changes.
//!
//! A replay writes it once, when it is made, instead of in every run.

use crate::{Access, Mode, Op, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

/// A slot whose content is the same in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// The slot. It is no longer scratch: its memory must be provided, with the data.
    pub slot: SlotId,
    /// The data of the whole slot, in the caller's arena of writes.
    pub data: Span,
}

/// How the operations of a recording use a slot.
#[derive(Debug, Clone, Copy, Default)]
struct SlotUse {
    writers: u32,
    /// Read while nothing had written it.
    read_first: bool,
    /// The data of a write to all of it.
    data: Option<Span>,
}

impl Recording {
    /// Removes the writes that give scratch its only content, and makes that scratch external memory.
    ///
    /// ```
    /// use sortie_plan::{Access, Op, OpKind, Recording, SlotInfo, SlotKind, Span};
    /// let mut recording = Recording::new();
    /// let table = recording.push_slot(SlotInfo { kind: SlotKind::Scratch, bytes: 8 });
    /// recording.push_access(Access::write(table, 0..8));
    /// recording.push_op(Op { kind: OpKind::Write { data: Span::new(0..8) }, accesses: Span::new(0..1) });
    /// let constants = recording.take_constants();
    /// assert_eq!((constants[0].slot, constants[0].data), (table, Span::new(0..8)));
    /// assert_eq!(recording.slots[0].kind, SlotKind::External);
    /// assert_eq!(recording.ops[0].kind, OpKind::Write { data: Span::EMPTY });
    /// ```
    pub fn take_constants(&mut self) -> Vec<Constant> {
        let uses = self.slot_uses();
        let constant = |slot: SlotId| {
            let used = uses[slot.0 as usize];
            let info = &self.slots[slot.0 as usize];
            used.data.filter(|_| info.kind == SlotKind::Scratch && used.writers == 1 && !used.read_first)
        };
        let slots = (0..).map(SlotId).take(self.slots.len());
        let constants: Vec<_> = slots.filter_map(|slot| Some(Constant { slot, data: constant(slot)? })).collect();
        if !constants.is_empty() {
            *self = self.without(&constants);
        }
        constants
    }

    fn slot_uses(&self) -> Vec<SlotUse> {
        let mut uses = vec![SlotUse::default(); self.slots.len()];
        let read = |used: &mut SlotUse| used.read_first |= used.writers == 0;
        for op in &self.ops {
            if let OpKind::Tensor { tensor, .. } = op.kind {
                let tensor = &self.tensors[tensor.0 as usize];
                tensor.inputs().iter().for_each(|input| read(&mut uses[input.slot.0 as usize]));
                uses[tensor.output.slot.0 as usize].writers += 1;
                continue;
            }
            for Access { slot, mode, start, end } in self.accesses_of(op) {
                let used = &mut uses[slot.0 as usize];
                if *mode != Mode::Write {
                    read(used);
                }
                if *mode != Mode::Read {
                    used.writers += 1;
                }
                let whole = *start == 0 && *end == self.slots[slot.0 as usize].bytes;
                if let OpKind::Write { data } = op.kind
                    && whole
                {
                    used.data = Some(data);
                }
            }
        }
        uses
    }

    /// The same recording with these slots given from outside. Ops keep their numbers.
    fn without(&self, constants: &[Constant]) -> Self {
        let is_constant = |slot: SlotId| constants.binary_search_by_key(&slot, |constant| constant.slot).is_ok();
        let mut recording = Self::new();
        for (slot, info) in (0..).map(SlotId).zip(&self.slots) {
            let kind = if is_constant(slot) { SlotKind::External } else { info.kind };
            recording.push_slot(SlotInfo { kind, ..*info });
        }
        for kernel in &self.kernels {
            recording.push_kernel(*kernel);
        }
        for tensor in &self.tensors {
            recording.push_tensor(*tensor);
        }
        for access in &self.accesses {
            recording.push_access(*access);
        }
        for port in self.inputs.iter() {
            recording.push_input(port.slot, port.bytes);
        }
        for port in self.outputs.iter() {
            recording.push_output(port.slot, port.bytes);
        }
        for op in &self.ops {
            let written = matches!(op.kind, OpKind::Write { .. })
                && self.accesses_of(op).iter().any(|access| is_constant(access.slot));
            // An op without accesses is not part of a plan.
            recording.push_op(if written { Op::bare(OpKind::Write { data: Span::EMPTY }) } else { *op });
        }
        recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Draft;

    /// A draft whose slot 0 is scratch of 8 bytes that a write fills.
    fn written() -> Draft {
        let mut draft = Draft::new();
        let slot = draft.scratch(8);
        draft.transfer(&[Access::write(slot, 0..8)]);
        draft
    }

    fn constants(draft: &mut Draft) -> usize {
        draft.recording.take_constants().len()
    }

    #[test]
    fn scratch_that_is_written_once_and_then_read_is_constant() {
        let mut draft = written();
        draft.dispatch(&[Access::read(SlotId(0), 0..8)]);
        let before = draft.recording.fingerprint();
        assert_eq!(constants(&mut draft), 1);
        assert_eq!(draft.recording.slots[0].kind, SlotKind::External);
        assert!(draft.recording.accesses_of(&draft.recording.ops[0]).is_empty());
        assert_ne!(draft.recording.fingerprint(), before);
        assert_eq!(constants(&mut draft), 0, "it is not scratch any more");
    }

    #[test]
    fn memory_that_changes_in_a_run_is_not_constant() {
        let mut overwritten = written();
        overwritten.dispatch(&[Access::write(SlotId(0), 4..8)]);
        let mut twice = written();
        twice.transfer(&[Access::write(SlotId(0), 0..8)]);
        let mut in_part = Draft::new();
        let slot = in_part.scratch(8);
        in_part.transfer(&[Access::write(slot, 0..4)]);
        let mut read_first = Draft::new();
        let slot = read_first.scratch(8);
        read_first.dispatch(&[Access::read(slot, 0..8)]);
        read_first.transfer(&[Access::write(slot, 0..8)]);
        let mut external = Draft::new();
        let slot = external.external(8);
        external.transfer(&[Access::write(slot, 0..8)]);
        for mut draft in [overwritten, twice, in_part, read_first, external] {
            let before = draft.recording.clone();
            assert_eq!(constants(&mut draft), 0);
            assert!(draft.recording.same_as(&before));
        }
    }
}
