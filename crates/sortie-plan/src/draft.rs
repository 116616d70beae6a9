//! Short spellings of recordings, for this crate's own tests.

use crate::{Access, Lane, Op, OpKind, Recording, SlotId, SlotInfo, SlotKind, Span};

/// A recording being written down by a test.
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
        self.op(OpKind::Dispatch, Lane::Compute, accesses, [0, 0]);
    }

    pub(crate) fn dispatch_with(&mut self, params: [u32; 2]) {
        self.op(OpKind::Dispatch, Lane::Compute, &[], params);
    }

    pub(crate) fn transfer(&mut self, accesses: &[Access]) {
        self.op(OpKind::Copy, Lane::Transfer, accesses, [0, 0]);
    }

    pub(crate) fn barrier(&mut self) {
        self.op(OpKind::Barrier, Lane::Transfer, &[], [0, 0]);
    }

    pub(crate) fn split(&mut self) {
        self.op(OpKind::Split, Lane::Transfer, &[], [0, 0]);
    }

    fn op(&mut self, kind: OpKind, lane: Lane, accesses: &[Access], params: [u32; 2]) {
        let start = self.recording.accesses.len();
        for access in accesses {
            self.recording.push_access(*access);
        }
        let accesses = Span::new(start..self.recording.accesses.len());
        self.recording.push_op(Op { kind, lane, accesses, params, ..Op::NOTHING });
    }
}
