//! Normalized rows, with the steps that compute them and those that follow.
//!
//! Whole rows are computed in the first-level cache, as many as fit in a block. A row that is longer than a block is
//! kept in the first output between its passes. Invariant: a result depends on its row only, not on where that is.

use smallvec::SmallVec;
use sortie_cpu::{BoundMemory, Halted, Stop, Threads, native::normalize};
use sortie_plan::{
    ElementType, Norm,
    fuse::{Body, Program},
};

use super::{
    pieces::{PIECE, Piece, piece_len, share},
    registers::RegisterAssignment,
    steps::{BLOCK, Block, Steps, with_registers, words},
};

/// A program whose head normalizes rows.
#[derive(Debug)]
pub(super) struct Rows {
    f: Norm,
    row: usize,
    /// The scalar that is its ε.
    scalar: usize,
    body: Steps,
    tail: Steps,
    inputs: usize,
    outputs: Vec<ElementType>,
    len: usize,
}

impl Rows {
    pub(super) fn new(program: &Program, f: Norm, row: u32, scalar: usize, body: &Body) -> Self {
        Self {
            f,
            row: row.max(1) as usize,
            scalar,
            body: RegisterAssignment::of_body(program, body),
            tail: RegisterAssignment::of_tail(program),
            inputs: program.inputs.len(),
            outputs: program.outputs.iter().map(|output| output.element).collect(),
            len: program.len() as usize,
        }
    }

    /// Elements times steps; an exponential takes as long as eight.
    pub(super) fn work(&self) -> u64 {
        let passes = if self.f == Norm::Softmax { 10 } else { 4 };
        self.len as u64 * (passes + self.body.tasks.len() + self.tail.tasks.len()) as u64
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
        let pieces = Piece::cut(written, &self.outputs, self.len, piece_len(self.len, PIECE, self.row, threads));
        share(pieces.into_iter(), self.work(), threads, stop, |piece| self.piece(&inputs, scalars, piece))
    }

    fn piece(&self, inputs: &[&[u32]], scalars: &[u32], mut piece: Piece<'_>) {
        let epsilon = scalars.get(self.scalar).map_or(0.0, |bits| f32::from_bits(*bits));
        with_registers(self.body.words() + self.tail.words(), |memory| {
            let (body, tail) = memory.split_at_mut(self.body.words());
            self.body.prepare(body, piece.len, scalars);
            self.tail.prepare(tail, piece.len, scalars);
            let block = if self.row <= BLOCK { BLOCK / self.row * self.row } else { self.row };
            let end = piece.start + piece.len;
            for start in (piece.start..end).step_by(block) {
                let block = Block { start, len: block.min(end - start), inputs, scalars };
                if self.row <= BLOCK {
                    self.short(block, epsilon, body, tail, &mut piece);
                } else {
                    self.long(block, epsilon, body, tail, &mut piece);
                }
            }
        });
    }

    /// Whole rows that fit into a block.
    fn short(&self, block: Block<'_>, epsilon: f32, body: &mut [u32], tail: &mut [u32], piece: &mut Piece<'_>) {
        let mut own = self.body.places(body, block.len);
        let values = self.body.run_body(block, &mut own);
        let mut places = self.tail.places(tail, block.len);
        places.extend(piece.block(block.start, block.len, &self.outputs));
        normalize(self.f, epsilon, self.row, Some(values), places[self.head()]);
        self.tail.run(block, &mut places);
    }

    /// One row of several blocks.
    fn long(&self, row: Block<'_>, epsilon: f32, body: &mut [u32], tail: &mut [u32], piece: &mut Piece<'_>) {
        let blocks = || {
            let starts = (row.start..row.start + row.len).step_by(BLOCK);
            starts.map(|start| Block { start, len: BLOCK.min(row.start + row.len - start), ..row })
        };
        let lent = self.body.lends(row);
        let first = row.start - piece.start;
        if lent.is_none() {
            for block in blocks() {
                let mut own = self.body.places(body, block.len);
                let values = self.body.run_body(block, &mut own);
                piece.outputs[0][block.start - piece.start..][..block.len].copy_from_slice(values);
            }
        }
        normalize(self.f, epsilon, self.row, lent, &mut piece.outputs[0][first..first + row.len]);
        let in_place = self.head() == self.tail.registers;
        for block in blocks().filter(|_| !(in_place && self.tail.tasks.is_empty())) {
            let mut places = self.tail.places(tail, block.len);
            places.extend(piece.block(block.start, block.len, &self.outputs));
            if !in_place {
                let (registers, outputs) = places.split_at_mut(self.tail.registers);
                let [normed, others @ ..] = outputs else { unreachable!("an output at least") };
                let head = self.head();
                let to = if head < registers.len() {
                    &mut *registers[head]
                } else {
                    &mut *others[head - registers.len() - 1]
                };
                to.copy_from_slice(normed);
            }
            self.tail.run(block, &mut places);
        }
    }

    fn head(&self) -> usize {
        self.tail.head.unwrap_or_else(|| unreachable!("the tail of a head reads its result"))
    }
}
