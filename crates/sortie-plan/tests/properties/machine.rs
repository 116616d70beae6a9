//! Runs recordings byte by byte, so that any op that runs too early or on the wrong memory shows in the result.
//!
//! An op takes in all bytes it may read and derives from them, and from its own number, every byte it writes.
//! Ranges that it may write only in part are changed in about half of their bytes, so what was there before matters.

use sortie_plan::{Access, Mode, Plan, Recording, SlotKind};

/// What can be seen of a run from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The bytes that each op of the recording read.
    pub(crate) read: Vec<Vec<u8>>,
    /// The final bytes of every external slot.
    pub(crate) external: Vec<Vec<u8>>,
}

/// Runs the ops as recorded, each slot on memory of its own, scratch zeroed.
pub(crate) fn run_in_order(recording: &Recording) -> Outcome {
    let mut machine = Machine::new(recording);
    for op in 0..recording.ops.len() {
        machine.run(op);
    }
    machine.outcome()
}

/// Runs the ops as planned, scratch on physical buffers full of garbage that only [`Plan::clears`] zeroes.
pub(crate) fn run_planned(recording: &Recording, plan: &Plan) -> Outcome {
    let mut machine = Machine::new(recording);
    let first_physical = recording.slots.len();
    for (slot, physical) in plan.placement.iter().enumerate() {
        if let Some(physical) = physical {
            machine.buffer_of[slot] = first_physical + physical.0 as usize;
        }
    }
    for (number, bytes) in plan.physical.iter().enumerate() {
        machine.buffers.push(noise(!0 - number as u64, *bytes));
    }
    for (number, wave) in plan.waves.iter().enumerate() {
        for clear in plan.clears.iter().filter(|c| c.wave as usize == number) {
            let buffer = &mut machine.buffers[first_physical + clear.physical.0 as usize];
            buffer[..to_usize(clear.bytes)].fill(0);
        }
        for op in &plan.order[wave.ops.range()] {
            machine.run(*op as usize);
        }
    }
    machine.outcome()
}

struct Machine<'a> {
    recording: &'a Recording,
    buffers: Vec<Vec<u8>>,
    /// For each slot, which of the buffers it lies on.
    buffer_of: Vec<usize>,
    read: Vec<Vec<u8>>,
}

impl<'a> Machine<'a> {
    fn new(recording: &'a Recording) -> Self {
        let buffers = recording.slots.iter().enumerate();
        let buffers = buffers.map(|(number, slot)| match slot.kind {
            SlotKind::External => noise(number as u64, slot.bytes),
            SlotKind::Scratch => vec![0; to_usize(slot.bytes)],
        });
        Self {
            recording,
            buffers: buffers.collect(),
            buffer_of: (0..recording.slots.len()).collect(),
            read: vec![Vec::new(); recording.ops.len()],
        }
    }

    fn run(&mut self, number: usize) {
        let op = &self.recording.ops[number];
        let accesses = self.recording.accesses_of(op);
        let mut read = Vec::new();
        for access in accesses.iter().filter(|access| access.mode != Mode::Write) {
            read.extend_from_slice(self.bytes(access));
        }
        let mut state = read.iter().fold(number as u64, |state, byte| scramble(state ^ u64::from(*byte)));
        for access in accesses.iter().filter(|access| access.mode != Mode::Read) {
            for byte in self.bytes(access) {
                state = scramble(state);
                let [value, choice, ..] = state.to_le_bytes();
                if access.mode == Mode::Write || choice.is_multiple_of(2) {
                    *byte = value;
                }
            }
        }
        self.read[number] = read;
    }

    fn bytes(&mut self, access: &Access) -> &mut [u8] {
        let buffer = self.buffer_of[access.slot.0 as usize];
        &mut self.buffers[buffer][to_usize(access.start)..to_usize(access.end)]
    }

    fn outcome(mut self) -> Outcome {
        let slots = self.recording.slots.iter();
        let external = slots.map(|slot| slot.kind == SlotKind::External);
        self.buffers.truncate(self.recording.slots.len());
        Outcome {
            read: self.read,
            external: self
                .buffers
                .into_iter()
                .zip(external)
                .filter_map(|(bytes, external)| external.then_some(bytes))
                .collect(),
        }
    }
}

/// Bytes that are nothing in particular.
fn noise(seed: u64, bytes: u64) -> Vec<u8> {
    let byte = |at| scramble(scramble(seed) ^ at).to_le_bytes()[0];
    (0..bytes).map(byte).collect()
}

/// A permutation of the numbers in which every bit of the input matters (the finaliser of `SplitMix64`).
fn scramble(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("test buffers are small")
}
