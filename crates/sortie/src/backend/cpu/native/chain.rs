//! Fused elementwise operations, computed by the host without a kernel.
//!
//! Steps run one after the other over a block of elements that stays in the first-level cache, then over the next
//! block. An input that is already contiguous in memory is read in place. A result is computed in its output.

use smallvec::SmallVec;
use sortie_cpu::{BoundMemory, Halted, Stop, Threads};
use sortie_plan::{ElementType, fuse::Program};

use super::{
    pieces::{PIECE, Piece, piece_len, share},
    registers::RegisterAssignment,
    steps::{BLOCK, Block, Steps, with_registers, words},
};

/// The steps of a program without a head.
#[derive(Debug)]
pub(crate) struct Chain {
    steps: Steps,
    inputs: usize,
    outputs: Vec<ElementType>,
    len: usize,
}

impl Chain {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            steps: RegisterAssignment::of_tail(program),
            inputs: program.inputs.len(),
            outputs: program.outputs.iter().map(|output| output.element).collect(),
            len: program.len() as usize,
        }
    }

    /// Elements times steps.
    pub(super) fn work(&self) -> u64 {
        self.len as u64 * self.steps.tasks.len() as u64
    }

    /// Computes all outputs. `bound`: the inputs, then the outputs.
    pub(super) fn run(
        &self,
        bound: &mut [BoundMemory<'_>],
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halted> {
        let (read, written) = bound.split_at_mut(self.inputs);
        let inputs: SmallVec<[&[u32]; 8]> = read.iter().map(|input| words(input)).collect();
        let pieces = Piece::cut(written, &self.outputs, self.len, piece_len(self.len, PIECE, BLOCK, threads));
        share(pieces.into_iter(), self.work(), threads, stop, |piece| self.piece(&inputs, scalars, piece))
    }

    fn piece(&self, inputs: &[&[u32]], scalars: &[u32], mut piece: Piece<'_>) {
        with_registers(self.steps.words(), |memory| {
            self.steps.prepare(memory, piece.len, scalars);
            let end = piece.start + piece.len;
            for start in (piece.start..end).step_by(BLOCK) {
                let len = BLOCK.min(end - start);
                let mut places = self.steps.places(memory, len);
                places.extend(piece.block(start, len, &self.outputs));
                self.steps.run(Block { start, len, inputs, scalars }, &mut places);
            }
        });
    }
}
