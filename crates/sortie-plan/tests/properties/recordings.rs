//! Random recordings, small enough that most of their accesses collide.

use proptest::collection::vec;
use proptest::prelude::*;
use sortie_plan::{Access, Lane, Mode, Op, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

/// A few short slots, every kind of op, any ranges.
pub(crate) fn recordings() -> impl Strategy<Value = Recording> {
    let ops = vec((kind(), vec(touch(), 1..=3), params()), 0..=24);
    (vec((slot_kind(), 1..=12_u64), 1..=6), ops).prop_map(|(slots, ops)| record(&slots, &ops))
}

/// One long slot, written by the byte and read by the stretch, so that its history falls into many pieces. Some ops
/// also wait for each other, so that the pieces differ.
pub(crate) fn sliced_recordings() -> impl Strategy<Value = Recording> {
    let byte = || (0..64_u64).prop_map(|start| start..start + 1);
    let wide = || (0..16_u64, 40..=64_u64).prop_map(|(start, end)| start..end);
    let touch = prop_oneof![
        6 => (Just(Mode::Write), byte()),
        1 => (Just(Mode::Read), byte()),
        2 => (Just(Mode::Read), wide()),
    ];
    // No fences: each would make the history of what follows short.
    let kind = prop_oneof![6 => Just(OpKind::Dispatch), 1 => Just(OpKind::Copy)];
    vec((kind, touch, any::<bool>()), 0..=120).prop_map(|ops| {
        let mut draft = Draft::default();
        let long = draft.slot(SlotKind::Scratch, 64);
        let chain = draft.slot(SlotKind::External, 4);
        for (kind, (mode, bytes), waits) in ops {
            let mut accesses = vec![Access::new(long, mode, bytes)];
            if waits {
                accesses.push(Access::read_write(chain, 0..4));
            }
            draft.op(kind, &accesses, [0, 0]);
        }
        draft.recording
    })
}

/// A slot (modulo how many there are), a mode and the first and last byte (modulo its length); `None` is all of it.
type Touch = (usize, Mode, Option<(u64, u64)>);

fn touch() -> impl Strategy<Value = Touch> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write), Just(Mode::ReadWrite)];
    // Whole slots are common in practice, and only they save a clear.
    let bounds = prop_oneof![Just(None), any::<(u64, u64)>().prop_map(Some)];
    (any::<usize>(), mode, bounds)
}

fn kind() -> impl Strategy<Value = OpKind> {
    prop_oneof![
        12 => Just(OpKind::Dispatch),
        3 => Just(OpKind::Copy),
        2 => Just(OpKind::Fill),
        2 => Just(OpKind::Write),
        2 => Just(OpKind::Read),
        1 => Just(OpKind::Barrier),
        1 => Just(OpKind::Split),
    ]
}

fn slot_kind() -> impl Strategy<Value = SlotKind> {
    prop_oneof![Just(SlotKind::External), Just(SlotKind::Scratch)]
}

fn params() -> impl Strategy<Value = [u32; 2]> {
    let block = || prop_oneof![Just(0), 1..=40_u32];
    [block(), block()]
}

fn record(slots: &[(SlotKind, u64)], ops: &[(OpKind, Vec<Touch>, [u32; 2])]) -> Recording {
    let mut draft = Draft::default();
    let ids: Vec<SlotId> = slots.iter().map(|(kind, bytes)| draft.slot(*kind, *bytes)).collect();
    for (kind, touches, params) in ops {
        let accesses: Vec<Access> = touches
            .iter()
            .map(|(slot, mode, bounds)| {
                let slot = slot % slots.len();
                let bytes = slots[slot].1;
                let (a, b) = bounds.map_or((0, bytes - 1), |(a, b)| (a % bytes, b % bytes));
                Access::new(ids[slot], *mode, a.min(b)..a.max(b) + 1)
            })
            .collect();
        draft.op(*kind, &accesses, *params);
    }
    draft.recording
}

/// A recording being written down.
#[derive(Default)]
struct Draft {
    recording: Recording,
}

impl Draft {
    fn slot(&mut self, kind: SlotKind, bytes: u64) -> SlotId {
        self.recording.push_slot(SlotInfo { kind, bytes })
    }

    /// Appends an op; barriers and splits leave the accesses and parameters out.
    fn op(&mut self, kind: OpKind, accesses: &[Access], params: [u32; 2]) {
        let (lane, fence) = match kind {
            OpKind::Dispatch | OpKind::Tensor => (Lane::Compute, false),
            OpKind::Copy | OpKind::Fill | OpKind::Write | OpKind::Read => (Lane::Transfer, false),
            OpKind::Barrier | OpKind::Split => (Lane::Transfer, true),
        };
        let start = self.recording.accesses.len();
        for access in accesses.iter().filter(|_| !fence) {
            self.recording.push_access(*access);
        }
        let accesses = Span::new(start..self.recording.accesses.len());
        let params = if fence { [0, 0] } else { params };
        self.recording.push_op(Op { kind, lane, accesses, params, ..Op::NOTHING });
    }
}
