//! What becomes a replay: inputs, outputs, and freezing.

use std::{marker::PhantomData, panic::Location, sync::Arc};

use sortie_plan::SlotId;

use super::{Batch, Slot, Typed};
use crate::{
    encode::Frozen,
    error::{Error, ErrorKind, Result},
    finish::Completion,
    policy::Split,
    submit::Hold,
};

impl Batch {
    /// Memory that each run of a replay fills.
    pub(crate) fn input_slot(&mut self, bytes: u64) -> SlotId {
        let tape = self.tape();
        let slot = tape.fixed(bytes.next_multiple_of(4).max(4));
        tape.recording.push_input(slot, bytes);
        slot
    }

    /// Memory that each run of a replay may read, filled at this point. Returns where its data will be.
    #[track_caller]
    pub(crate) fn output_of<B: Typed>(&mut self, from: B) -> (u64, u64) {
        let place = from.place();
        let (len, bytes) = (place.elements(), place.stretch.exact());
        let limit = self.shared.limits().buffer_bytes;
        if bytes > limit {
            self.tape().refuse(Error::too_large("output: bytes in one buffer", bytes, limit), Location::caller());
            return (0, 0);
        }
        if bytes == 0 {
            return (0, 0);
        }
        let tape = self.tape();
        let slot = tape.fixed(bytes.next_multiple_of(4));
        let start = tape.recording.push_output(slot, bytes);
        self.copy(from, Slot::<B::Item> { batch: self.id, index: slot.0, len, elements: PhantomData });
        (start, bytes)
    }

    /// Plans it, compiles its kernels and gives it memory for good. Also returns how its runs are cut.
    pub(crate) fn frozen(mut self, here: &'static Location<'static>) -> Result<(Frozen, Split)> {
        let mut tape = self.tape.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        if self.landing.is_some() {
            let message = "freeze: a reading or a profile is of one batch; ask for an output, which every run of a replay can read, or a run for its profile";
            let error = Error::new(ErrorKind::Bindings, message).at(here);
            if let Some(completion) = &self.completion {
                completion.finish(Err(error.clone()));
            }
            tape.give_back();
            return Err(error);
        }
        let shared = self.shared.clone();
        let _inside = shared.enter();
        let outcome = Error::all(tape.mistakes()).map_or(Ok(()), Err).and_then(|()| {
            shared.lost().check()?;
            let caps = self.caps();
            let planned = shared.executor().plan(&shared, &tape.recording, &caps)?;
            let route = self.route(&planned, &tape.payload);
            tape.payload.names.forget_times();
            shared.executor().freeze(&shared, &planned, route, std::mem::take(&mut tape.payload))
        });
        tape.give_back();
        let outcome = outcome.and_then(|(frozen, first)| {
            if let Some(commands) = first {
                let completion = Arc::new(Completion::new());
                completion.submitted();
                let mut hold = Hold::new(completion, Arc::new([]), here);
                hold.pin(frozen.payload.blocks.clone());
                shared.submitter().run(commands, hold)?;
            }
            Ok((frozen, self.split.unwrap_or(shared.policy().split)))
        });
        outcome.map_err(|error| match error.location() {
            Some(_) => error,
            None => shared.explain(error).at(here),
        })
    }
}
