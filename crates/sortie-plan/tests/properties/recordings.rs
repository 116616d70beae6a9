//! Random recordings, small enough that most of their accesses collide.

use proptest::collection::vec;
use proptest::prelude::*;
use sortie_plan::{Access, KernelIndex, Mode, Op, OpGrid, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

/// A few short slots, every kind of op, any ranges, some of them with an input and an output.
pub(crate) fn recordings() -> impl Strategy<Value = Recording> {
    let ops = vec((kind(), vec(touch(), 1..=3)), 0..=24);
    (vec((slot_kind(), 1..=12_u64), 1..=6), ops, any::<bool>())
        .prop_map(|(slots, ops, ports)| record(&slots, &ops, ports))
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
    let kind = prop_oneof![6 => Just(dispatch(OpGrid::Direct([2, 1, 1]), 0)), 1 => Just(OpKind::Copy)];
    vec((kind, touch, any::<bool>()), 0..=120).prop_map(|ops| {
        let mut draft = Draft::default();
        let long = draft.slot(SlotKind::Scratch, 64);
        let chain = draft.slot(SlotKind::External, 4);
        for (kind, (mode, bytes), waits) in ops {
            let mut accesses = vec![Access::new(long, mode, bytes)];
            if waits {
                accesses.push(Access::read_write(chain, 0..4));
            }
            draft.op(kind, &accesses);
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
    let grid = prop_oneof![
        6 => [0..4_u32, 1..4_u32, 1..3_u32].prop_map(OpGrid::Direct),
        2 => [1..6_u32, 1..6_u32, 1..2_u32].prop_map(|groups| OpGrid::Wrapped { groups, share: Span::EMPTY }),
        1 => Just(OpGrid::Indirect),
    ];
    let hidden = || prop_oneof![3 => Just(0), 1 => 1..=40_u32];
    let pattern = prop_oneof![Just(Span::EMPTY), (0..9_u32, 1..4_u32).prop_map(|(start, len)| Span { start, len })];
    let data = || (0..99_u32).prop_map(|start| Span { start, len: 4 });
    prop_oneof![
        12 => (grid, hidden()).prop_map(|(grid, hidden)| dispatch(grid, hidden)),
        3 => Just(OpKind::Copy),
        2 => (pattern, hidden()).prop_map(|(pattern, hidden)| fill(pattern, hidden)),
        2 => data().prop_map(|data| OpKind::Write { data }),
        2 => data().prop_map(|to| OpKind::Read { to }),
        1 => Just(OpKind::Barrier),
        1 => Just(OpKind::Split),
    ]
}

fn dispatch(grid: OpGrid, hidden_immediates: u32) -> OpKind {
    let immediates = Span { start: 3 * hidden_immediates, len: hidden_immediates };
    OpKind::Dispatch { kernel: KernelIndex(0), grid, immediates, hidden_immediates }
}

/// Only patterns need a kernel.
fn fill(pattern: Span, hidden: u32) -> OpKind {
    OpKind::Fill { pattern, hidden_immediates: if pattern.len > 0 { hidden } else { 0 } }
}

fn slot_kind() -> impl Strategy<Value = SlotKind> {
    prop_oneof![Just(SlotKind::External), Just(SlotKind::Scratch)]
}

fn record(slots: &[(SlotKind, u64)], ops: &[(OpKind, Vec<Touch>)], ports: bool) -> Recording {
    let mut draft = Draft::default();
    let ids: Vec<SlotId> = slots.iter().map(|(kind, bytes)| draft.slot(*kind, *bytes)).collect();
    for (kind, touches) in ops {
        let accesses: Vec<Access> = touches
            .iter()
            .map(|(slot, mode, bounds)| {
                let slot = slot % slots.len();
                let bytes = slots[slot].1;
                let (a, b) = bounds.map_or((0, bytes - 1), |(a, b)| (a % bytes, b % bytes));
                Access::new(ids[slot], *mode, a.min(b)..a.max(b) + 1)
            })
            .collect();
        draft.op(*kind, &accesses);
    }
    let external = slots.iter().zip(&ids).filter(|((kind, bytes), _)| *kind == SlotKind::External && *bytes >= 4);
    let external: Vec<_> = external.map(|((_, bytes), id)| (*id, bytes / 4 * 4)).collect();
    if let ([(first, bytes), ..], true) = (&external[..], ports) {
        draft.recording.push_input(*first, *bytes);
        external.iter().for_each(|(slot, bytes)| {
            draft.recording.push_output(*slot, *bytes);
        });
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

    /// Appends an op with as many of these accesses as its kind has, in its modes.
    fn op(&mut self, kind: OpKind, accesses: &[Access]) {
        let first = |mode| accesses.iter().take(1).map(move |access| Access { mode, ..*access }).collect();
        let accesses: Vec<Access> = match kind {
            // As recorded by `sortie`: a kernel does not read and write one buffer through two bindings.
            OpKind::Dispatch { .. } => {
                let alone = |at: &usize| accesses[..*at].iter().all(|other| other.slot != accesses[*at].slot);
                (0..accesses.len()).filter(alone).map(|at| accesses[at]).collect()
            }
            OpKind::Copy => {
                let (from, to) = (accesses[0], accesses[accesses.len() - 1]);
                vec![Access { mode: Mode::Read, ..from }, Access { mode: Mode::Write, ..to }]
            }
            OpKind::Fill { .. } | OpKind::Write { .. } => first(Mode::Write),
            OpKind::Read { .. } => first(Mode::Read),
            OpKind::Barrier | OpKind::Split | OpKind::Tensor { .. } => Vec::new(),
        };
        let start = self.recording.accesses.len();
        accesses.iter().for_each(|access| self.recording.push_access(*access));
        let accesses = Span::new(start..self.recording.accesses.len());
        self.recording.push_op(Op { kind, accesses });
    }
}
