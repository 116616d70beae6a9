//! Random bytes read as decisions.

use std::fmt;

use proptest::{collection::vec, prelude::*};

/// A tape for each part of a kernel, so that a part can go without changing what the others say.
#[derive(Clone, Default)]
pub(crate) struct Tapes {
    pub(crate) arrays: Vec<Vec<u8>>,
    pub(crate) functions: Vec<Vec<u8>>,
    pub(crate) statements: Vec<Vec<u8>>,
    pub(crate) results: Vec<Vec<u8>>,
}

impl Tapes {
    /// For kernels with control flow.
    pub(crate) fn programs() -> impl Strategy<Value = Self> {
        let tapes = |bytes: usize, count: usize| vec(vec(any::<u8>(), 0..bytes), 0..count);
        (tapes(4, 3), tapes(250, 3), tapes(160, 9), tapes(150, 5))
            .prop_map(|(arrays, functions, statements, results)| Self { arrays, functions, statements, results })
    }

    /// For kernels that are one expression after another.
    pub(crate) fn expressions(bytes: usize) -> impl Strategy<Value = Self> {
        let results = vec(vec(any::<u8>(), 0..bytes), 1..5);
        results.prop_map(|results| Self { results, ..Self::default() })
    }
}

/// Only their sizes: the kernel itself is in the message.
impl fmt::Debug for Tapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |tapes: &[Vec<u8>]| tapes.iter().map(Vec::len).sum::<usize>();
        let all = [&self.arrays, &self.functions, &self.statements, &self.results].map(|tapes| bytes(tapes));
        write!(f, "bytes of arrays, functions, statements, results: {all:?}")
    }
}

/// One tape. Past its end it gives zeros, and zero is the simplest decision everywhere: a shorter tape is a smaller kernel.
pub(crate) struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Nodes that may still be made: drivers take long over a kernel of pages.
    room: usize,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), room: 90 }
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
