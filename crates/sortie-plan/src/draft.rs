//! Short notations for recordings, for this crate's own tests.

use crate::{Access, KernelIndex, Mode, Op, OpGrid, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

/// A recording built by a test.
pub(crate) struct Draft {
    pub(crate) recording: Recording,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self { recording: Recording::new() }
    }

    pub(crate) fn external(&mut self, bytes: u64) -> SlotId {
        let kind = SlotKind::External;
        self.recording.push_slot(SlotInfo { kind, bytes })
    }

    pub(crate) fn scratch(&mut self, bytes: u64) -> SlotId {
        let kind = SlotKind::Scratch;
        self.recording.push_slot(SlotInfo { kind, bytes })
    }

    pub(crate) fn dispatch(&mut self, accesses: &[Access]) {
        self.dispatch_over([1, 1, 1], accesses);
    }

    pub(crate) fn dispatch_over(&mut self, groups: [u32; 3], accesses: &[Access]) {
        let kernel = KernelIndex(0);
        let (grid, immediates) = (OpGrid::Direct(groups), Span::EMPTY);
        self.op(OpKind::Dispatch { kernel, grid, immediates, hidden_immediates: 0 }, accesses);
    }

    pub(crate) fn transfer(&mut self, accesses: &[Access]) {
        let kind = match accesses {
            [_, _] => OpKind::Copy,
            [Access { mode: Mode::Read, .. }] => OpKind::Read { to: Span::EMPTY },
            _ => OpKind::Write { data: Span::EMPTY },
        };
        self.op(kind, accesses);
    }

    pub(crate) fn barrier(&mut self) {
        self.op(OpKind::Barrier, &[]);
    }

    pub(crate) fn split(&mut self) {
        self.op(OpKind::Split, &[]);
    }

    fn op(&mut self, kind: OpKind, accesses: &[Access]) {
        let start = self.recording.accesses.len();
        for access in accesses {
            self.recording.push_access(*access);
        }
        let accesses = Span::new(start..self.recording.accesses.len());
        self.recording.push_op(Op { kind, accesses });
    }
}
