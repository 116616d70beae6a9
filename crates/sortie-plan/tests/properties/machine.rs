//! Runs recordings and plans byte by byte, so that any step that runs too early or on the wrong memory shows in the result.
//!
//! A dispatch or copy takes in all bytes it only reads, and derives from them, from its own number and from what was there before, every byte it
//! writes. Ranges that it may write only in part are changed in about half of their bytes. Written bytes belong to workgroups in turn, so that a
//! piece of a divided dispatch writes its share.

use std::ops::Range;

use sortie_plan::{
    Access, Caps, Cut, Dispatch, Groups, MemoryId, Mode, Op, OpGrid, OpKind, ParamBlock, Plan, Recording, SlotId,
    SlotKind, Span, Step,
};

/// What can be seen of a run from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The bytes that each recorded op read without writing them.
    pub(crate) read: Vec<Vec<u8>>,
    /// The final bytes of every external slot.
    pub(crate) external: Vec<Vec<u8>>,
    /// The bytes of each output.
    pub(crate) outputs: Vec<Vec<u8>>,
}

/// Runs the ops as recorded, each slot on memory of its own, scratch zeroed.
pub(crate) fn run_in_order(recording: &Recording) -> Outcome {
    let mut machine = Machine::new(recording, recording.ops.len());
    (0..recording.inputs.len()).for_each(|port| machine.input(port));
    for (number, op) in recording.ops.iter().enumerate().filter(|(_, op)| !op.is_empty()) {
        let accesses = recording.accesses_of(op);
        match op.kind {
            OpKind::Dispatch { grid: OpGrid::Direct(groups) | OpGrid::Wrapped { groups, .. }, .. } => {
                machine.compute(number, accesses, groups, 0..u32::MAX);
            }
            OpKind::Fill { pattern, .. } => machine.fill(accesses[0], pattern),
            OpKind::Write { data } => machine.write(accesses[0], data),
            OpKind::Read { .. } | OpKind::Copy | OpKind::Dispatch { .. } => {
                machine.compute(number, accesses, [1, 1, 1], 0..1);
            }
            OpKind::Tensor { .. } | OpKind::Barrier | OpKind::Split => {}
        }
    }
    (0..recording.outputs.len()).for_each(|port| machine.output(port));
    machine.outcome()
}

/// Interprets a plan cut so, scratch on memory full of garbage that only [`Step::Zero`] zeroes. `origin` has the recorded op of each op of `recording`,
/// which may have been divided.
///
/// Panics where two steps that no barrier separates conflict, and where parameters are not what a step needs.
pub(crate) fn run_planned(recording: &Recording, plan: &Plan, cuts: &[Cut], caps: &Caps, origin: &[u32]) -> Outcome {
    let recorded = origin.iter().max().map_or(0, |last| *last as usize + 1);
    let mut machine = Machine::new(recording, recorded);
    machine.memory_of.clone_from(&plan.memory);
    for (number, bytes) in plan.scratch.iter().enumerate() {
        machine.memory.push(noise(!0 - number as u64, *bytes));
    }
    for cut in cuts {
        let mut wave = Wave { plan, touched: Vec::new() };
        for (_, step) in plan.steps_of(cut) {
            match step {
                Step::Params => assert!(!plan.params.is_empty()),
                Step::Barrier(_) => wave.touched.clear(),
                Step::Input(port) => machine.input(port.0 as usize),
                Step::Output(port) => machine.output(port.0 as usize),
                Step::Zero(id) => {
                    let zero = plan[id];
                    wave.touch(zero.memory, Access::write(SlotId(0), 0..zero.bytes));
                    machine.memory[zero.memory.0 as usize][..to_usize(zero.bytes)].fill(0);
                }
                Step::Fill(id) => {
                    wave.touch_all(&[plan[id].to]);
                    machine.fill(plan[id].to, plan[id].pattern);
                }
                Step::Write(id) => {
                    wave.touch_all(&[plan[id].to]);
                    machine.write(plan[id].to, plan[id].data);
                }
                Step::Dispatch(_) | Step::Copy(_) | Step::Read(_) => {
                    let op = plan.op_of(step).expect("a step of an op").0 as usize;
                    let accesses = recording.accesses_of(&recording.ops[op]);
                    wave.touch_all(accesses);
                    let (groups, share) = match step {
                        Step::Dispatch(id) => share(&recording.ops[op], &plan[id], plan, caps),
                        _ => ([1, 1, 1], 0..1),
                    };
                    machine.compute(origin[op] as usize, accesses, groups, share);
                }
            }
        }
    }
    machine.outcome()
}

/// The grid of a dispatch and which of its workgroups run, found as a device finds them.
fn share(op: &Op, dispatch: &Dispatch, plan: &Plan, caps: &Caps) -> ([u32; 3], Range<u32>) {
    let OpKind::Dispatch { hidden_immediates, immediates, .. } = op.kind else { panic!("{op:?}") };
    if hidden_immediates > 0 {
        let block = ParamBlock::Immediates { at: dispatch.hidden.immediates, bytes: immediates };
        assert!(plan.params.contains(&block), "{block:?}");
    }
    match dispatch.groups {
        Groups::Direct(groups) => (groups, 0..u32::MAX),
        Groups::Indirect(_) => ([1, 1, 1], 0..1),
        Groups::Wrapped(folded) => {
            let grid = plan.params.iter().find_map(|block| match block {
                ParamBlock::Grid { at, groups, first, end } if *at == dispatch.hidden.grid => {
                    Some((*groups, *first..*end))
                }
                _ => None,
            });
            let (groups, share) = grid.expect("a wrapped dispatch has a block with its grid");
            assert!(folded.iter().all(|side| *side <= caps.max_groups), "{folded:?}");
            assert!(folded.iter().product::<u32>() >= share.end - share.start, "{folded:?} for {share:?}");
            (groups, share)
        }
    }
}

/// What has been touched since the last barrier.
struct Wave<'a> {
    plan: &'a Plan,
    touched: Vec<(MemoryId, Access)>,
}

impl Wave<'_> {
    /// One step touches these: they may conflict with each other, not with what other steps touched.
    fn touch_all(&mut self, accesses: &[Access]) {
        let before = self.touched.len();
        for access in accesses {
            self.check(self.plan.memory_of(access.slot), *access, before);
        }
    }

    fn touch(&mut self, memory: MemoryId, access: Access) {
        self.check(memory, access, self.touched.len());
    }

    fn check(&mut self, memory: MemoryId, access: Access, before: usize) {
        let place = |access: Access| Access { slot: SlotId(0), ..access };
        for (other, earlier) in &self.touched[..before] {
            let conflict = *other == memory && place(*earlier).conflicts(&place(access));
            assert!(!conflict, "{earlier:?} and {access:?} without a barrier between them");
        }
        self.touched.push((memory, access));
    }
}

struct Machine<'a> {
    recording: &'a Recording,
    memory: Vec<Vec<u8>>,
    /// For each slot, the memory that it lies on.
    memory_of: Vec<MemoryId>,
    read: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl<'a> Machine<'a> {
    fn new(recording: &'a Recording, ops: usize) -> Self {
        let memory = recording.slots.iter().enumerate();
        let memory = memory.map(|(number, slot)| match slot.kind {
            SlotKind::External => noise(number as u64, slot.bytes),
            SlotKind::Scratch => vec![0; to_usize(slot.bytes)],
        });
        Self {
            recording,
            memory: memory.collect(),
            memory_of: (0..).map(MemoryId).take(recording.slots.len()).collect(),
            read: vec![Vec::new(); ops],
            outputs: Vec::new(),
        }
    }

    /// Runs some workgroups of an op.
    fn compute(&mut self, number: usize, accesses: &[Access], groups: [u32; 3], share: Range<u32>) {
        let mut read = Vec::new();
        for access in accesses.iter().filter(|access| access.mode == Mode::Read) {
            read.extend_from_slice(self.bytes(access));
        }
        let seed = read.iter().fold(number as u64, |state, byte| scramble(state ^ u64::from(*byte)));
        let all = groups.iter().product::<u32>();
        let mut group = (0..all).cycle();
        let mut position = 0_u64;
        for access in accesses.iter().filter(|access| access.mode != Mode::Read) {
            for byte in self.bytes(access) {
                position += 1;
                let old = if access.mode == Mode::Write { 0 } else { u64::from(*byte) };
                let [value, choice, ..] = scramble(seed ^ scramble(position) ^ old).to_le_bytes();
                let runs = group.next().is_some_and(|group| share.contains(&group));
                if runs && (access.mode == Mode::Write || choice.is_multiple_of(2)) {
                    *byte = value;
                }
            }
        }
        self.read[number] = read;
    }

    fn fill(&mut self, to: Access, pattern: Span) {
        let value = |at: usize| match pattern.len {
            0 => 0,
            period => scramble(u64::from(pattern.start) + at as u64 % u64::from(period)).to_le_bytes()[0],
        };
        self.bytes(&to).iter_mut().enumerate().for_each(|(at, byte)| *byte = value(at));
    }

    fn write(&mut self, to: Access, data: Span) {
        let value = |at: usize| scramble((!u64::from(data.start)).wrapping_add(at as u64)).to_le_bytes()[0];
        self.bytes(&to).iter_mut().enumerate().for_each(|(at, byte)| *byte = value(at));
    }

    fn input(&mut self, port: usize) {
        let port = self.recording.inputs[port];
        let data = noise(0x1000 + port.start, port.bytes);
        self.bytes(&Access::write(port.slot, 0..port.bytes)).copy_from_slice(&data);
    }

    fn output(&mut self, port: usize) {
        let port = self.recording.outputs[port];
        let bytes = self.bytes(&Access::read(port.slot, 0..port.bytes)).to_vec();
        self.outputs.push(bytes);
    }

    fn bytes(&mut self, access: &Access) -> &mut [u8] {
        let memory = self.memory_of[access.slot.0 as usize].0;
        &mut self.memory[memory as usize][to_usize(access.start)..to_usize(access.end)]
    }

    fn outcome(self) -> Outcome {
        let slots = self.memory.into_iter().zip(&self.recording.slots);
        let external = slots.filter(|(_, slot)| slot.kind == SlotKind::External).map(|(bytes, _)| bytes);
        Outcome { read: self.read, external: external.collect(), outputs: self.outputs }
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
