//! What becomes a replay: inputs, outputs, and freezing.

use std::panic::Location;

use bytemuck::Zeroable;
use sortie_plan::OpKind;

use super::{Batch, Input, Typed};
use crate::{
    encode::Frozen,
    error::{Error, ErrorKind, Result},
    memory::Block,
};

impl Batch {
    /// Memory that each run of a replay fills; until then the data are zeros.
    #[track_caller]
    pub(crate) fn fill_each_run<B: Typed>(&mut self, to: B, len: usize)
    where
        B::Item: Zeroable,
    {
        let before = self.tape().recording.ops.len();
        self.write(to, &vec![B::Item::zeroed(); len]);
        let tape = self.tape();
        let written = tape.recording.ops.get(before).filter(|op| op.kind == OpKind::Write).copied();
        if let Some(op) = written
            && let [access] = tape.recording.accesses_of(&op)
        {
            let input = Input { slot: access.slot, data: op.data };
            tape.inputs.push(input);
        }
    }

    /// Where the data of an output will be, of each run that asks for it: its place and its bytes.
    #[track_caller]
    pub(crate) fn read_each_run(&mut self, from: impl Typed) -> (u64, u64) {
        let at = Location::caller();
        let place = from.place();
        self.tape().has_outputs = true;
        let start = self.recorder().read(&place, at).unwrap_or_else(|error| {
            self.tape().refuse(error, at);
            0
        });
        (start, place.stretch.exact())
    }

    /// Plans it, compiles its kernels and gives it memory for good.
    pub(crate) fn frozen(mut self, here: &'static Location<'static>) -> Result<(Frozen, Vec<Input>)> {
        let mut tape = self.tape.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        if self.landing.is_some() {
            let message = "freeze: a reading is of one batch; ask for an output, which every run of a replay can read";
            let error = Error::new(ErrorKind::Bindings, message).at(here);
            if let Some(completion) = &self.completion {
                completion.finish(Err(error.clone()));
            }
            tape.give_back();
            return Err(error);
        }
        let shared = self.shared.clone();
        let outcome = Error::all(tape.mistakes()).map_or(Ok(()), Err).and_then(|()| {
            shared.lost().check()?;
            let caps = self.caps(&tape.recording);
            let planned = shared.executor().plans().get(&shared, &tape.recording, &caps)?;
            let payload = std::mem::take(&mut tape.payload);
            shared.executor().freeze(&shared, planned, payload)
        });
        let inputs = std::mem::take(&mut tape.inputs);
        tape.give_back();
        let frozen = outcome.map_err(|error| match error.location() {
            Some(_) => error,
            None => Block::blame([], shared.explain(error)).at(here),
        })?;
        Ok((frozen, inputs))
    }
}
