//! Random bytes read as decisions.

/// Past its end it gives zeros, and zero is the simplest decision everywhere: a shorter tape is a smaller kernel.
pub(crate) struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Nodes that may still be made: expressions could outgrow any tape, since a byte makes several operands.
    room: usize,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), room: 260 }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// A number below `end`.
    pub(crate) fn pick(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.pick(one_in) == one_in - 1
    }

    /// Whether one more node may be made.
    pub(crate) fn spend(&mut self) -> bool {
        self.room = self.room.saturating_sub(1);
        self.room > 0
    }

    /// A word: often small, sometimes at an edge, sometimes anything.
    pub(crate) fn word(&mut self) -> u32 {
        match self.pick(4) {
            0 | 1 => u32::from(self.byte()),
            2 => [0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0001_0000, 0x00ff_00ff][self.pick(5)],
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }
}
