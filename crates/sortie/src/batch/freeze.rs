//! Freezing a batch into a replay, with its inputs and outputs.

use std::panic::Location;

use sortie_plan::{Constant, OpKind, SlotId, Span};

use super::{Batch, Slot, Typed};
use crate::{
    error::{CallSite, Error, ErrorKind, Result},
    memory::Block,
    plan::FrozenPlan,
    policy::Split,
};

impl Batch {
    /// Memory that each run of a replay fills.
    pub(crate) fn input_slot(&self, bytes: u64) -> SlotId {
        let mut recorder = self.recorder();
        let slot = recorder.port_slot(bytes.next_multiple_of(4).max(4));
        recorder.recording.push_input(slot, bytes);
        slot
    }

    /// Memory that each run of a replay may read, filled at this point. Returns the start and
    /// the length in bytes of its data among the outputs.
    #[track_caller]
    pub(crate) fn output_of<B: Typed>(&self, from: B) -> (u64, u64) {
        let place = from.place();
        let (len, bytes) = (place.elements(), place.elements.exact());
        let limit = self.core.limits().buffer_bytes;
        if bytes > limit {
            self.recorder().refuse(Error::too_large("output: bytes in one buffer", bytes, limit), Location::caller());
            return (0, 0);
        }
        if bytes == 0 {
            return (0, 0);
        }
        let mut recorder = self.recorder();
        let slot = recorder.port_slot(bytes.next_multiple_of(4));
        let start = recorder.recording.push_output(slot, bytes);
        drop(recorder);
        self.copy(from, Slot::<B::Item>::new(self.id, slot.0, len));
        (start, bytes)
    }

    /// Plans it, compiles its kernels and allocates its memory permanently. Also returns how its runs are split.
    pub(crate) fn frozen(self, here: CallSite) -> Result<(FrozenPlan, Split)> {
        let mut state = self.state.take();
        let mut recorder = state.recorder.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        if state.readback.is_some() {
            let message = "freeze: a reading or a profile is of one batch; ask for an output, which every run of a replay can read, or a run for its profile";
            let error = Error::new(ErrorKind::Bindings, message).at(here);
            if let Some(completion) = &state.completion {
                completion.finish(Err(error.clone()));
            }
            recorder.give_back();
            return Err(error);
        }
        let core = self.core.clone();
        let _inside = core.backend.enter();
        let outcome = Error::all(recorder.mistakes()).map_or(Ok(()), Err).and_then(|()| {
            core.lost.check()?;
            let constants = recorder.recording.take_constants();
            let planned = core.plan(&recorder.recording)?.plan.clone();
            let cuts = state.cuts(&core, &planned, &recorder.resources);
            recorder.resources.names.forget_times();
            let mut resources = std::mem::take(&mut recorder.resources);
            planned.complete(&mut resources);
            for Constant { slot, data } in constants {
                let bytes = &resources.uploads[data.range()];
                let raw = core.take_memory(bytes.len() as u64, None)?;
                let block = Block::owned(core.pool.clone(), raw, bytes.len() as u64);
                core.backend.upload(&block, bytes)?;
                resources.blocks[slot.0 as usize] = Some(block);
            }
            if !planned.recording.ops.iter().any(|op| matches!(op.kind, OpKind::Write { data } if data != Span::EMPTY))
            {
                resources.uploads = Vec::new();
            }
            for port in planned.recording.inputs.iter().chain(planned.recording.outputs.iter()) {
                let raw = core.take_memory(port.bytes.max(4), None)?;
                resources.blocks[port.slot.0 as usize] = Some(Block::owned(core.pool.clone(), raw, port.bytes));
            }
            core.backend.freeze(&planned, cuts, resources, here)
        });
        recorder.give_back();
        let frozen = outcome.map_err(|error| match error.location() {
            Some(_) => error,
            None => core.backend.explain(error).at(here),
        })?;
        Ok((frozen, state.split.unwrap_or(core.policy.split)))
    }
}
